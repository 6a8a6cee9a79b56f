/* An agent of veilnet in ESPHome: a row of readings for each epoch, sanitized by the exported C, sent until the centre has it. */
#pragma once

#include <array>
#include <string>

#include "esphome/components/sensor/sensor.h"
#include "esphome/components/time/real_time_clock.h"
#include "esphome/core/component.h"
#include "esphome/core/preferences.h"

extern "C" {
#include "entropy.h"
#include "release.h"
}

namespace esphome::veilnet {

/* Two pages of flash as ESPHome keeps settings: pieces that are each written whole or not at all. */
class Flash {
 public:
  static constexpr size_t PAGE = 2048, PIECE = 128;
  bool open(uint32_t key);
  const veilnet_flash *callbacks() const { return &this->callbacks_; }

 protected:
  struct Piece {
    uint8_t bytes[PIECE];
  };
  static int read(void *flash, size_t place, uint8_t *bytes, size_t count);
  static int write(void *flash, size_t place, const uint8_t *bytes, size_t count);
  static int erase(void *flash, size_t which);
  int store(size_t first, size_t last);

  std::array<Piece, 2 * PAGE / PIECE> pieces_;
  std::array<ESPPreferenceObject, 2 * PAGE / PIECE> kept_;
  veilnet_flash callbacks_{this, PAGE, read, write, erase};
};

class Veilnet : public Component {
 public:
  void set_clock(time::RealTimeClock *clock) { this->clock_ = clock; }
  void set_root(const std::string &root) { this->root_ = root; }
  void set_seal(const std::string &digits);
  void set_reading(size_t place, sensor::Sensor *sensor);

  void setup() override;
  void loop() override;
  void dump_config() override;
  float get_setup_priority() const override { return setup_priority::AFTER_CONNECTION; }

 protected:
  void end_epoch_();
  void send_();
  void take_receipt_(const std::string &payload);
  bool publish_(const uint8_t *bytes, size_t count);

  veilnet_device device_{};
  Flash flash_;
  time::RealTimeClock *clock_{nullptr};
  std::string root_, messages_, receipts_;
  std::array<veilnet_reading, VEILNET_READINGS> row_; /* the last values of this epoch; not a number where none came */
  int64_t epoch_{0};
  uint64_t waiting_{0};
  uint32_t sent_{0};
  bool is_sent_{false};
};

}  // namespace esphome::veilnet

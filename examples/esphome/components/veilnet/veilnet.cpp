#include "veilnet.h"

#include <cinttypes>
#include <cmath>
#include <cstring>

#include "esphome/core/defines.h"
#include "esphome/core/hal.h"
#include "esphome/core/helpers.h"
#include "esphome/core/log.h"
#ifdef USE_MQTT
#include "esphome/components/mqtt/mqtt_client.h"
#endif

namespace esphome::veilnet {

static const char *const TAG = "veilnet";
static const uint32_t AGAIN = 5000; /* milliseconds after which a message without a receipt is sent again */

bool Flash::open(uint32_t key) {
  for (size_t i = 0; i < this->kept_.size(); i++) {
    this->kept_[i] = global_preferences->make_preference<Piece>(key + i, true);
    if (!this->kept_[i].load(&this->pieces_[i])) memset(&this->pieces_[i], 0xff, PIECE);
  }
  return true;
}

/* On the flash when this returns: what is drawn must not be forgotten. */
int Flash::store(size_t first, size_t last) {
  for (size_t i = first; i <= last; i++)
    if (!this->kept_[i].save(&this->pieces_[i])) return 1;
  return global_preferences->sync() ? 0 : 1;
}

int Flash::read(void *flash, size_t place, uint8_t *bytes, size_t count) {
  memcpy(bytes, static_cast<Flash *>(flash)->pieces_[0].bytes + place, count);
  return 0;
}

int Flash::write(void *flash, size_t place, const uint8_t *bytes, size_t count) {
  auto *self = static_cast<Flash *>(flash);
  memcpy(self->pieces_[0].bytes + place, bytes, count);
  return self->store(place / PIECE, (place + count - 1) / PIECE);
}

int Flash::erase(void *flash, size_t which) {
  auto *self = static_cast<Flash *>(flash);
  memset(self->pieces_[0].bytes + which * PAGE, 0xff, PAGE);
  return self->store(which * PAGE / PIECE, (which + 1) * PAGE / PIECE - 1);
}

void Veilnet::set_seal(const std::string &digits) {
  if (!parse_hex(digits, this->device_.secret, VEILNET_SECRET)) this->mark_failed();
}

void Veilnet::set_reading(size_t place, sensor::Sensor *sensor) {
  this->row_[place] = NAN;
  sensor->add_on_state_callback([this, place](float value) { this->row_[place] = value; });
}

void Veilnet::setup() {
  this->messages_ = this->root_ + "/messages/" VEILNET_IDENTITY;
  this->receipts_ = this->root_ + "/acks/" VEILNET_IDENTITY;
  this->flash_.open(fnv1_hash("veilnet " VEILNET_IDENTITY));
  auto status =
      veilnet_journal_open(&this->device_.journal, this->flash_.callbacks(), veilnet_system_entropy, nullptr);
  if (status != VEILNET_JOURNAL_OK) {
    ESP_LOGE(TAG, "The journal cannot be used (%d): nothing is sent", status);
    this->mark_failed();
    return;
  }
#ifdef USE_MQTT
  mqtt::global_mqtt_client->subscribe(
      this->receipts_, [this](const std::string &, const std::string &payload) { this->take_receipt_(payload); }, 0);
#endif
}

void Veilnet::loop() {
  auto now = this->clock_->utcnow();
  if (now.is_valid()) {
    int64_t epoch = veilnet_epoch(static_cast<int64_t>(now.timestamp) * 1000000);
    if (this->epoch_ && epoch != this->epoch_) this->end_epoch_();
    this->epoch_ = epoch;
  }
  this->send_();
}

/* The epoch is over: its row is sanitized once, and forgotten. */
void Veilnet::end_epoch_() {
  veilnet_status became;
  auto taken = veilnet_release(&this->device_, static_cast<uint64_t>(this->epoch_), this->row_.data(),
                               veilnet_system_entropy, nullptr, &became);
  this->row_.fill(NAN);
  if (taken == VEILNET_JOURNAL_FULL)
    ESP_LOGW(TAG, "Messages wait for receipts and leave no room: epoch %" PRId64 " is not sent", this->epoch_);
  else if (taken == VEILNET_JOURNAL_OLD)
    ESP_LOGW(TAG, "Epoch %" PRId64 " was taken before: nothing is sent for it", this->epoch_);
  else if (taken != VEILNET_JOURNAL_OK) {
    ESP_LOGE(TAG, "The journal failed (%d): nothing is sent any more", taken);
    this->mark_failed();
  } else if (became == VEILNET_NO_ENTROPY)
    ESP_LOGE(TAG, "No random bytes: epoch %" PRId64 " is not sent", this->epoch_);
  else if (became != VEILNET_OK)
    ESP_LOGW(TAG, "A reading is missing: epoch %" PRId64 " is told as missed", this->epoch_);
}

/* One message that waits after the other, the oldest first, again and again until a receipt names it. */
void Veilnet::send_() {
  uint8_t bytes[VEILNET_MESSAGE_BYTES];
  size_t count;
  uint64_t next = this->waiting_;
  if (this->is_sent_ && millis() - this->sent_ < AGAIN) return;
  if (veilnet_journal_waiting(&this->device_.journal, bytes, &count, &next) != VEILNET_JOURNAL_OK) return;
  this->waiting_ = next;
  if (!this->publish_(bytes, count)) return;
  this->is_sent_ = true;
  this->sent_ = millis();
}

bool Veilnet::publish_(const uint8_t *bytes, size_t count) {
#ifdef USE_MQTT
  auto *broker = mqtt::global_mqtt_client;
  return broker->is_connected() &&
         broker->publish(this->messages_, reinterpret_cast<const char *>(bytes), count, 1, false);
#else
  std::string digits; /* a trial on a computer, where ESPHome has no MQTT */
  for (size_t i = 0; i < count; i++) digits += "0123456789abcdef"[bytes[i] >> 4], digits += "0123456789abcdef"[bytes[i] & 15];
  ESP_LOGI(TAG, "%s %s", this->messages_.c_str(), digits.c_str());
  return true;
#endif
}

void Veilnet::take_receipt_(const std::string &payload) {
  int said = veilnet_receipt(reinterpret_cast<const uint8_t *>(payload.data()), payload.size(), this->device_.secret,
                             this->device_.journal.store, this->waiting_);
  if (said < 1 || !this->is_sent_) return;
  if (said == 2) ESP_LOGW(TAG, "The centre will never take message %" PRIu64, this->waiting_);
  if (veilnet_journal_done(&this->device_.journal, this->waiting_) != VEILNET_JOURNAL_OK) this->mark_failed();
  this->is_sent_ = false;
}

void Veilnet::dump_config() {
  ESP_LOGCONFIG(TAG, "Agent %s of plan %s: %d readings, %d numbers an epoch", VEILNET_AGENT, VEILNET_PLAN,
                VEILNET_READINGS, VEILNET_NUMBERS);
}

}  // namespace esphome::veilnet

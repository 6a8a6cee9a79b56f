"""Microphone arrays in a room (the paper's Example 1): one voice may be decoded, the others must not.

    python examples/microphones.py

Five people talk at once; four arrays of four microphones listen and send to a cloud service, which may decode what
Anna says. What Ben and Carla say must stay hard to estimate. Signals are cut into frames and taken apart into narrow
bands (a short-time Fourier transform); in a band, array i receives the complex y_i = H_i x + n_i, where x_k is the
signal of the k-th person and H_i[j, k] = a_i exp(i θ_ijk) has the phase by which sound arrives later at microphone
j. Each band is a network of its own with its own plan. Voices are made here: whispers, in syllables.

Two plans: the paper's, where nothing is known beforehand of what anybody says, and one that counts what is known of
voices in general, and pays. Printed, over all bands: how well each voice is recovered from raw signals and from what
is sent, as the correlation with the truth of the best linear guess of somebody who was given the truth of the first
half of the frames, on the second.
"""

from __future__ import annotations

import numpy as np
from scipy.signal import iirpeak, lfilter, stft

import veilnet as vn
from veilnet.model.complex import circular_prior, join_complex, stack_complex

RATE, FRAME, SECONDS = 8000, 256, 8.0  # samples a second, samples a frame, length
BANDS = (500.0, 750.0)  # Hz
SPEED = 343.0  # of sound, m/s
PEOPLE = {
    "Anna": (1.0, 2.0),
    "Ben": (4.0, 1.2),
    "Carla": (2.6, 4.3),
    "Dora": (4.6, 3.8),
    "Emil": (0.6, 4.0),
}  # in m
ARRAYS = {"door": (0.0, 0.0), "window": (5.0, 0.0), "shelf": (5.0, 5.0), "table": (2.5, 2.6)}
FORMANT = {"Anna": 850.0, "Ben": 600.0, "Carla": 800.0, "Dora": 900.0, "Emil": 650.0}  # Hz
NOISE = 5e-5  # variance of a microphone's own noise in a band; voices have about 2e-3
PUBLIC, PRIVATE = "Anna", ("Ben", "Carla")


def voice(formant: float, rng: np.random.Generator) -> np.ndarray:
    """A whisper: breath shaped by a mouth that resonates around a formant, louder and softer in syllables."""
    count = int(RATE * SECONDS)
    coloured = lfilter(*iirpeak(formant, 1.0, RATE), rng.standard_normal(count))
    knots = np.arange(0, SECONDS + 0.2, 0.2)
    syllables = np.interp(np.arange(count) / RATE, knots, rng.uniform(0, 1, len(knots)))
    return np.asarray(coloured * syllables)


def mixing(frequency: float) -> dict[str, np.ndarray]:
    """array -> H_i (microphones x people): gain and phase of every voice at every microphone."""
    found = {}
    for name, place in ARRAYS.items():
        microphones = np.array(place) + 0.06 * np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, -1.0], [0.0, 1.0]])
        away = np.linalg.norm(microphones[:, None, :] - np.array(list(PEOPLE.values()))[None, :, :], axis=2)
        gain = 1 / away.mean()  # one gain an array, as in the paper
        found[name] = gain * np.exp(-2j * np.pi * frequency * away / SPEED)
    return found


def network_of(frequency: float, prior: vn.Prior | None) -> vn.Network:
    """The real network of one band."""
    row = dict(zip(PEOPLE, np.eye(len(PEOPLE)), strict=True))
    return vn.Network.from_complex(
        mixing(frequency),
        NOISE,
        public={PUBLIC: row[PUBLIC]},
        private={name: row[name] for name in PRIVATE},
        prior=prior,
        parameters=list(PEOPLE),
        resolution=0,
    )


def received(frequency: float, x: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """array -> what its microphones receive, as the real numbers that its network expects."""
    found = {}
    for array, matrix in mixing(frequency).items():
        shape = (len(x), len(matrix))
        noise = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
        found[array] = stack_complex(x @ matrix.T + np.sqrt(NOISE / 2) * noise)
    return found


def recovered(seen: dict[str, np.ndarray], truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(guess, truth) of the second half of the frames by whoever was given the truth of the first."""
    numbers, half = np.concatenate(list(seen.values()), axis=1), len(truth) // 2
    weights, *_ = np.linalg.lstsq(numbers[:half], stack_complex(truth[:half, None]), rcond=None)
    return join_complex(numbers[half:] @ weights)[:, 0], truth[half:]


def correlation(pairs: list[tuple[np.ndarray, np.ndarray]]) -> float:
    """Of all bands together."""
    guess, truth = (np.concatenate([pair[side] for pair in pairs]) for side in (0, 1))
    return float(abs(np.vdot(guess, truth)) / (np.linalg.norm(guess) * np.linalg.norm(truth)))


def main() -> None:
    """Design every band, send, decode, attack."""
    rng = np.random.default_rng(1)
    voices = np.stack([voice(FORMANT[name], rng) for name in PEOPLE])
    frequencies, _, spoken = stft(voices, RATE, nperseg=FRAME, axis=1)
    ways = ("raw", "paper's", "paid")
    found: dict[tuple[str, str], list[tuple[np.ndarray, np.ndarray]]] = {
        (way, name): [] for way in ways for name in PEOPLE
    }
    decoded = []
    for frequency in BANDS:
        x = spoken[:, int(np.argmin(abs(frequencies - frequency))), :].T  # (frames, people)
        loudness = np.mean(np.abs(x) ** 2, axis=0)
        unknown = network_of(frequency, None)
        known = network_of(frequency, circular_prior(np.diag(loudness)))
        verdict = vn.check(unknown)
        plans = {"paper's": vn.design(unknown), "paid": vn.design(known, utility_loss=1.0)}
        told = ", ".join(f"{name} {1 + fold:.1f}-fold" for name, fold in plans["paid"].privacy.items())
        print(
            f"{frequency:.0f} Hz: without bound and for nothing: {verdict.achievable} (the theorem as printed: "
            f"{verdict.printed_theorem.achievable}); counting what is known: {told}"
        )
        readings = received(frequency, x, rng)
        views = {"raw": readings}
        for way, plan in plans.items():
            views[way] = {array: plan.sanitizers[array].sanitize(rows) for array, rows in readings.items()}
        estimate = vn.Fusion(plans["paper's"]).estimate(views["paper's"])
        decoded.append((join_complex(estimate.public)[:, 0], x[:, 0]))
        for way in ways:
            for place, name in enumerate(PEOPLE):
                found[way, name].append(recovered(views[way], x[:, place]))
    sent = sum(plans["paper's"].sent.values())
    print(f"Of {unknown.N} real numbers in a band the paper's plan sends {sent}.")
    print(
        f"The service decodes Anna by the paper's plan: correlation {correlation(decoded):.3f} with the truth."
    )
    print("voice  role     raw   paper's   paid")
    for name in PEOPLE:
        role = "public" if name == PUBLIC else "private" if name in PRIVATE else "other"
        raw, free, paid = (correlation(found[way, name]) for way in ways)
        print(f"{name:6} {role:7} {raw:5.2f}   {free:5.2f}   {paid:5.2f}")


if __name__ == "__main__":
    main()

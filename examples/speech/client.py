#!/usr/bin/env python3
"""Sends sound to the model `speech`, piece by piece as from a microphone, and prints the times with speech.

client.py [--grpc HOST:PORT] [--sound FILE.wav ...]

Each sound is a sequence; several are sent in turn, as from several microphones. Without files, the client makes two sounds:
one with a voice between noise and a tone, and one with only noise.
"""

import argparse
import wave

import numpy as np
import tritonclient.grpc

RATE = 16000
NEW, BEFORE = 512, 64  # samples of a new piece, and of the previous piece that are sent with it
BEGINS, ENDS = 0.5, 0.2  # speech begins above the first probability, and ends below the second
# The first three resonances of some vowels, in Hz, and their widths.
VOWELS = ((730, 1090, 2440), (270, 2290, 3010), (300, 870, 2240), (530, 1840, 2480), (570, 840, 2410))
WIDTHS = (80, 100, 140)


def resonate(sound, frequency, width):
    """Applies one resonance of the mouth to a sound."""
    radius = np.exp(-np.pi * width / RATE)
    first, second = 2 * radius * np.cos(2 * np.pi * frequency / RATE), -radius * radius
    answer = [0.0, 0.0]
    for sample in ((1 - first - second) * sound).tolist():
        answer.append(sample + first * answer[-1] + second * answer[-2])
    return np.array(answer[2:])


def voice(seconds, random):
    """Makes vowels, a syllable every 160 ms: pulses of the vocal cords through the resonances of the mouth."""
    time = np.arange(int(seconds * RATE)) / RATE
    pitch = 120 + 25 * np.sin(2 * np.pi * 0.7 * time) + 8 * np.sin(2 * np.pi * 5 * time)
    pulses = np.diff(np.floor(np.cumsum(pitch / RATE)), prepend=0) + 0.003 * random.standard_normal(len(time))
    sound, length, overlap = np.zeros(len(time)), int(0.16 * RATE), 400
    for begin in range(0, len(time), length):
        syllable = pulses[begin : begin + length + overlap]
        for frequency, width in zip(VOWELS[random.integers(len(VOWELS))], WIDTHS, strict=True):
            syllable = resonate(syllable, frequency, width)
        places = np.arange(len(syllable))
        sound[begin : begin + length + overlap] += syllable * np.minimum(1, np.minimum(places, places[::-1]) / 500)
    return 0.5 * sound / np.abs(sound).max()


def example_sounds():
    """Returns {name: samples}: a voice from 1.0 to 2.5 and from 5.0 to 6.5 seconds; and only noise."""
    random = np.random.default_rng(0)

    def noise(seconds, loudness):
        return loudness * random.standard_normal(int(seconds * RATE))

    tone = 0.3 * np.sin(2 * np.pi * 440 * np.arange(RATE) / RATE)
    parts = [
        noise(1, 0.002),
        voice(1.5, random),
        noise(1, 0.002),
        noise(0.5, 0.2),
        tone,
        voice(1.5, random),
        noise(1, 0.002),
    ]
    return {"voice": np.concatenate(parts).astype(np.float32), "noise": noise(5, 0.05).astype(np.float32)}


def read(path):
    """Returns the samples of a WAV file with one channel of 16 bits at 16 kHz."""
    with wave.open(path) as file:
        if (file.getnchannels(), file.getsampwidth(), file.getframerate()) != (1, 2, RATE):
            raise SystemExit(f"client: {path}: expected one channel of 16 bits at {RATE} Hz")
        return np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32) / 32768


def pieces(sound):
    """Yields the network's inputs, [1,576] each."""
    padded = np.concatenate([np.zeros(BEFORE, np.float32), sound])
    return [padded[None, at : at + BEFORE + NEW] for at in range(0, len(sound) - NEW + 1, NEW)]


def listen(client, sounds):
    """Returns {name: the probability of speech in each piece}. The sounds are sent in turn."""
    inputs = {name: pieces(sound) for name, sound in sounds.items()}
    probabilities = {name: [] for name in sounds}
    for step in range(max(map(len, inputs.values()))):
        for sequence, (name, steps) in enumerate(inputs.items(), start=1):
            if step >= len(steps):
                continue
            audio = tritonclient.grpc.InferInput("audio", list(steps[step].shape), "FP32")
            audio.set_data_from_numpy(steps[step])
            answer = client.infer(
                "speech",
                [audio],
                sequence_id=sequence,
                sequence_start=step == 0,
                sequence_end=step == len(steps) - 1,
            )
            probabilities[name].append(float(answer.as_numpy("speech")[0, 0]))
    return probabilities


def spoken(probabilities):
    """Returns (from, to) in seconds of each time with speech."""
    times, begin = [], None
    for step, probability in enumerate(probabilities):
        if begin is None and probability >= BEGINS:
            begin = step
        elif begin is not None and probability < ENDS:
            times.append((begin, step))
            begin = None
    if begin is not None:
        times.append((begin, len(probabilities)))
    return [(first * NEW / RATE, last * NEW / RATE) for first, last in times]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grpc", default="localhost:9000")
    parser.add_argument("--sound", nargs="+", metavar="FILE", help="WAV files, mono, 16 bits, 16 kHz")
    arguments = parser.parse_args()
    sounds = {path: read(path) for path in arguments.sound} if arguments.sound else example_sounds()
    with tritonclient.grpc.InferenceServerClient(arguments.grpc) as client:
        for name, probabilities in listen(client, sounds).items():
            print(f"{name}: {len(probabilities)} pieces")
            for begin, end in spoken(probabilities):
                print(f"  speech from {begin:.2f} to {end:.2f} s")


if __name__ == "__main__":
    main()

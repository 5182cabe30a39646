"""Silero's speech model, run over all windows of a channel at once.

The official call feeds the scripted model one 512-sample window at a time, so nearly all its time
goes into the overhead of tiny operations. Only the recurrent layer needs the previous window.
Here everything before it (spectrum and four convolutions) runs over blocks of windows with the
model's own weights, and the recurrence over a block in one call. The discrete Fourier transform,
which the model stores as a convolution, is done as one.

The results differ from the official ones only by float rounding, which no bound is proven for: 1.8e-4
is the largest difference ever seen, on quiet speech, whose features are small differences of nearly
equal numbers; at ordinary levels it is some 1e-5. `settle` takes the official ones for the
rare channel where that could move a span. Importing the library sets torch to one thread in this process;
run several channels in threads instead.
"""

from __future__ import annotations

import threading
import warnings
from functools import cache

import numpy as np

RATE_HZ = 16_000
WINDOW_SAMPLES = 512
ROUNDING = 5e-4
"""Within this of a decision level the official model decides: nearly three times the largest difference seen."""

_CONTEXT_SAMPLES = 64
_SPECTRUM_SAMPLES, _HOP_SAMPLES = 256, 128
_STRIDES = (1, 2, 2, 1)
_BLOCK_WINDOWS = 256  # 8 s; keeps a block's activations (0.5 MB a layer) in the cache and memory flat
_official_lock = threading.Lock()
_load_lock = threading.Lock()


def window_probabilities(audio: np.ndarray) -> np.ndarray:
    """Speech probability of each window of a channel.

    Parameters
    ----------
    audio : float32, shape (samples,), at 16 kHz; the last short window is completed with zeros.

    Returns
    -------
    float32, shape (ceil(samples / 512),).
    """
    if len(audio) == 0:
        return np.empty(0, np.float32)
    with _load_lock:
        forward = _forward()
    return forward(audio)


def official_probabilities(audio: np.ndarray) -> np.ndarray:
    """The same from the official scripted model, window by window, which is slow.

    The model holds the stream's state, so calls from several threads wait for each other.
    """
    import torch

    padded = np.zeros(_windows(len(audio)) * WINDOW_SAMPLES, np.float32)
    padded[: len(audio)] = audio
    with _official_lock, torch.no_grad():
        model = _official()
        model.reset_states()
        values = [model(window, RATE_HZ).item() for window in torch.from_numpy(padded).split(WINDOW_SAMPLES)]
    return np.array(values, np.float32)


def doubtful_windows(probabilities: np.ndarray, levels: tuple[float, ...]) -> np.ndarray:
    """Indices of the windows so near a decision level that rounding could move them across it."""
    distance = np.abs(probabilities[:, None].astype(np.float64) - np.array(levels)).min(axis=1)
    return np.flatnonzero(distance < ROUNDING)


def settle(audio: np.ndarray, probabilities: np.ndarray, doubtful: np.ndarray) -> np.ndarray:
    """Replace the probabilities up to the last doubtful window by the official ones.

    The model is causal, so it need not run beyond. Arguments and result as above.
    """
    upto = int(doubtful[-1]) + 1
    settled = probabilities.copy()
    settled[:upto] = official_probabilities(audio[: upto * WINDOW_SAMPLES])
    return settled


def _windows(n_samples: int) -> int:
    return -(-n_samples // WINDOW_SAMPLES)


@cache
def _official():
    from silero_vad import load_silero_vad

    return load_silero_vad()


@cache
def _forward():
    """The fast path if it agrees with the installed model, else the library's sequence model."""
    try:
        model = _Blocks(_official().state_dict())
        sound = np.random.default_rng(0).normal(0, 0.1, RATE_HZ).astype(np.float32)
        difference = float(np.abs(model(sound) - official_probabilities(sound)).max())
        if difference < ROUNDING:
            return model
        reason = f"the probabilities differ by {difference:.1e}"
    except (KeyError, RuntimeError) as error:
        reason = f"{type(error).__name__}: {error}"
    warnings.warn(
        f"The installed silero-vad has another model than expected ({reason}); its own sequence model is used, "
        "which gives the same spans at about a third of the speed.",
        stacklevel=3,
    )
    from silero_vad import load_silero_vad

    return load_silero_vad(sequence=True).audio_forward


class _Blocks:
    """The 16 kHz model as functions over blocks of windows; safe to call from several threads."""

    def __init__(self, weights: dict):
        import torch

        weights = {name.removeprefix("_model."): value.detach() for name, value in weights.items()}
        # Row 0 of the stored transform is the cosine of frequency 0, that is the window itself.
        self.taper = weights["stft.forward_basis_buffer"][0, 0].clone()
        # Frequencies come last out of the transform; as "channels last" images they need no transposing.
        self.convolutions = [
            (
                weights[f"encoder.{i}.reparam_conv.weight"][:, :, None].contiguous(memory_format=torch.channels_last),
                weights[f"encoder.{i}.reparam_conv.bias"],
                stride,
            )
            for i, stride in enumerate(_STRIDES)
        ]
        self.recurrent = torch.nn.LSTM(128, 128, batch_first=True).requires_grad_(False)
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            getattr(self.recurrent, f"{name}_l0").copy_(weights[f"decoder.rnn.{name}"])
        self.out_weight, self.out_bias = weights["decoder.decoder.2.weight"][0, :, 0], weights["decoder.decoder.2.bias"]

    def __call__(self, audio: np.ndarray) -> np.ndarray:
        import torch

        n = _windows(len(audio))
        padded = np.zeros(_CONTEXT_SAMPLES + n * WINDOW_SAMPLES, np.float32)
        padded[_CONTEXT_SAMPLES : _CONTEXT_SAMPLES + len(audio)] = audio
        probabilities, state = [], None
        with torch.inference_mode():
            # Each window is preceded by the last 64 samples of the one before.
            windows = torch.from_numpy(padded).unfold(0, _CONTEXT_SAMPLES + WINDOW_SAMPLES, WINDOW_SAMPLES)
            for block in windows.split(_BLOCK_WINDOWS):
                hidden, state = self.recurrent(self.encode(block)[None], state)
                probabilities.append(torch.sigmoid(hidden[0].relu_() @ self.out_weight + self.out_bias))
            return torch.cat(probabilities).numpy()

    def encode(self, windows):
        """Windows, shape (n, 576), to the recurrent layer's input, shape (n, 128)."""
        import torch
        from torch.nn import functional

        framed = functional.pad(windows, (0, _CONTEXT_SAMPLES), "reflect").unfold(1, _SPECTRUM_SAMPLES, _HOP_SAMPLES)
        features = torch.fft.rfft(framed * self.taper).abs()[:, None].permute(0, 3, 1, 2)
        for weight, bias, stride in self.convolutions:
            features = functional.conv2d(features, weight, bias, (1, stride), padding=(0, 1)).relu_()
        return features[:, :, 0, 0]

"""54 sensors send bits, a server learns from their sum: python examples/sensors.py [picture.png]

Each sensor packs the signs of its readings' features; the server adds the bytes it receives into a sketch, which is
that of all readings to the bit, and learns three Gaussians from it. The picture shows bits per reading against the
likelihood of held-out readings. Needs matplotlib: .venv/bin/pip install '.[plot]' in a clone. Some minutes.
"""

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sensor_network import Sensor, Server, in_turn, likelihood, likelihoods, operator_of

DRAWS = 3
LEAST = 1e-4  # nats, at the lower end of the picture
STYLES = {
    "float64": "s-", "float32": "o-", "float32, subsample": "o:", "one bit": "^-", "one bit, subsample": "v-",
}  # fmt: skip


def main() -> None:
    parts, pilot, held_out = in_turn(500, seed=0)
    operator = operator_of(pilot, 250, "square", seed=0)
    server = Server(operator)
    for rows in parts:
        server.receive(Sensor(operator, rows).messages())
    everything = np.concatenate(parts)
    print(f"{server.count:,} readings in {server.received:,} bytes")
    print(f"the server's sketch is that of all readings: {server.sketch() == operator.sketch(everything)}")
    print(f"held-out log-likelihood {likelihood(server.sketch(), held_out, seed=0):.3f} nats per reading")

    found = likelihoods(range(DRAWS))
    ((raw_bits, raw),) = found.pop("raw float32").items()
    figure, axes = plt.subplots(figsize=(7, 4.4), layout="constrained")
    for way, curve in found.items():
        bits, values = np.array(list(curve)), np.array(list(curve.values()))
        deficit = np.maximum(np.array(raw) - values, LEAST)
        (line,) = axes.plot(bits, np.median(deficit, axis=1), STYLES[way], label=way)
        axes.fill_between(bits, deficit.min(axis=1), deficit.max(axis=1), alpha=0.15, color=line.get_color())
    axes.axvline(raw_bits, color="0.6", linestyle="--", label="raw readings, float32 (EM)")
    title = f"54 sensors, three Gaussians, {DRAWS} draws"
    axes.set(xscale="log", yscale="log", xlabel="bits per reading", title=title)
    axes.set_ylabel("nats per held-out reading below EM on raw readings")
    axes.legend(fontsize=8)
    path = sys.argv[1] if len(sys.argv) > 1 else "sensors.png"
    figure.savefig(path, dpi=110)
    print(f"wrote {path}")


if __name__ == "__main__":
    main()

"""Save an engine and go on later: sources, rows, subscriptions and counters are all in one file.

Output:

    loaded 2 subscriptions over stocks, trades
    answer: [{'symbol': 'AA', 'per': 9.5}]
    volume: mature at row 2 with 105
    left: 1 in the loaded engine, 2 in the saved one
    refused: 'save_and_load.py' is not a saved engine, or its end is missing or damaged
"""

import tempfile
from pathlib import Path

import tocsin

engine = tocsin.Engine()
engine.create_table("stocks", key="symbol", columns={"symbol": "string", "per": "double"})
engine.create_stream("trades", columns={"shares": "bigint"})
engine.subscribe("SELECT symbol, per FROM stocks ORDER BY per LIMIT 1", id="cheapest")
engine.subscribe("SELECT SUM(shares) FROM trades HAVING SUM(shares) >= 100", id="volume")
engine.publish("stocks", [{"symbol": "AA", "per": 9.5}])
engine.publish("trades", [{"shares": 60}])

with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "engine.tocsin"
    engine.save(file)  # written aside, then renamed: a crash leaves the old file or the new one
    restored = tocsin.Engine.load(file)

print("loaded", len(restored), "subscriptions over", ", ".join(restored.sources))
print("answer:", restored.result("cheapest").to_pylist())
# The threshold goes on counting from 60.
for change in restored.publish("trades", [{"shares": 30}, {"shares": 15}]).to_pylist():
    print(f"{change['subscription']}: {change['op']} at row {change['seq']} with {change['score']:.0f}")

# A threshold without `repeat` ends when it matures; the engine that was saved still counts.
print("left:", len(restored), "in the loaded engine,", len(engine), "in the saved one")

try:
    tocsin.Engine.load(__file__)
except tocsin.StateError as failure:
    print("refused:", str(failure).replace(__file__, "save_and_load.py"))

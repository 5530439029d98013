"""Network monitoring: the heaviest flows of the last minutes, by each operator's own weights.

Output:

    three flows
      volume: enter row 2 at rank 1
      volume: enter row 0 at rank 2
      scans: enter row 1 at rank 1
      scans: enter row 0 at rank 2
      loud: enter row 1
      loud: enter row 2
    time moves on, and the flow of 12:00 expires
      volume: leave row 0
      volume: enter row 1 at rank 2
      scans: leave row 0
      scans: enter row 2 at rank 2
    [{'host': 'backup', 'bytes': 9800.0}, {'host': 'scanner', 'bytes': 90.0}]
"""

import pyarrow as pa

import tocsin

engine = tocsin.Engine()
engine.create_stream(
    "flows",
    columns={"host": "string", "bytes": "double", "packets": "double", "at": "timestamp"},
    window="5 minutes",
    time="at",
)

# ORDER BY takes any expression that only rises or only falls in each column.
engine.subscribe_many(
    "SELECT host, bytes, packets FROM flows ORDER BY :a * bytes + :b * packets DESC LIMIT 2",
    {"id": ["volume", "scans"], "a": [1.0, 0.0], "b": [0.0, 1.0]},
)
# A score threshold instead of a rank: every flow in the window above it.
engine.subscribe("SELECT host FROM flows WHERE bytes + 100 * packets > 9000", id="loud")


def show(changes: pa.Table) -> None:
    """Print changes; the key of a stream's row is its number."""
    for change in changes.to_pylist():
        rank = f" at rank {change['rank']}" if change["rank"] else ""
        print(f"  {change['subscription']}: {change['op']} row {change['key']}{rank}")


flows = [("web", 5000, 10, "12:00"), ("scanner", 90, 400, "12:01"), ("backup", 9800, 2, "12:04")]
names = ("host", "bytes", "packets")
rows = [{**dict(zip(names, flow, strict=False)), "at": f"2026-01-01T{flow[3]}:00Z"} for flow in flows]
print("three flows")
show(engine.publish("flows", rows))
print("time moves on, and the flow of 12:00 expires")
show(engine.advance("flows", "2026-01-01T12:05:00Z"))
print(engine.result("volume").select(["host", "bytes"]).to_pylist())

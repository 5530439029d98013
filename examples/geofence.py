"""Geofences: the vehicles with the most charge within reach of each depot, maintained as vehicles move.

Output:

    three vehicles
      north: enter A1
      south: enter B2
      count: value 1 vehicles
    A1 drives from the north to the south
      north: leave A1
      south: enter A1
      count: value 0 vehicles
    C3 comes
      north: enter C3
      count: value 1 vehicles
"""

import tocsin

engine = tocsin.Engine()
engine.create_table(
    "vehicles",
    key="plate",
    columns={"plate": "string", "x": "double", "y": "double", "charge": "double"},
)

# A circle is DISTANCE over two columns, in the units of the columns; the edge is inside.
depots = {"id": ["north", "south"], "cx": [0.0, 10.0], "cy": [0.0, 0.0], "r": [5.0, 4.0]}
engine.subscribe_many(
    "SELECT plate, charge FROM vehicles WHERE DISTANCE(x, y, :cx, :cy) <= :r ORDER BY charge DESC LIMIT 2",
    depots,
)
inside = engine.subscribe("SELECT COUNT(*) FROM vehicles WHERE DISTANCE(x, y, 0, 0) <= 5", id="count")


def move(*rows: tuple[str, float, float, float]) -> None:
    """Publish where vehicles are, and print what changes."""
    names = ("plate", "x", "y", "charge")
    for change in engine.publish(
        "vehicles", [dict(zip(names, row, strict=True)) for row in rows]
    ).to_pylist():
        what = change["key"] if change["op"] != "value" else f"{change['score']:.0f} vehicles"
        print(f"  {change['subscription']}: {change['op']} {what}")


print("three vehicles")
move(("A1", 3, 4, 80), ("B2", 8, 1, 55), ("C3", 20, 20, 99))
print("A1 drives from the north to the south")
move(("A1", 9, 2, 78))
print("C3 comes")
move(("C3", 1, 1, 95))

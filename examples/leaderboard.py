"""A leaderboard for every player's own range of levels: top-k over a table, kept up to date by changes alone.

Output:

    ['enter Ada', 'enter Bob', 'enter Cy']
      board: Ada 300, Bob 250, Cy 100
    ['update Cy']
      board: Cy 400, Ada 300, Bob 250
    ['leave Ada', 'enter Eve']
      board: Cy 400, Bob 250, Eve 50
"""

from typing import Any

import tocsin

Entries = list[dict[str, Any]]

engine = tocsin.Engine()
engine.create_table("players", key="name", columns={"name": "string", "level": "int", "points": "bigint"})
board = engine.subscribe(
    "SELECT name, points FROM players WHERE level BETWEEN 10 AND 20 ORDER BY points DESC LIMIT 3"
)


def apply(held: Entries, changes: Entries) -> Entries:
    """What a subscriber does: drop what left or was updated, then insert updates and enters by rank."""
    gone = {change["key"] for change in changes if change["op"] in ("leave", "update")}
    held = [entry for entry in held if entry["key"] not in gone]
    for change in sorted((c for c in changes if c["op"] != "leave"), key=lambda c: c["rank"]):
        held.insert(change["rank"] - 1, change)
    return held


batches = [
    [("Ada", 12, 300), ("Bob", 15, 250), ("Cy", 19, 100), ("Dee", 30, 900)],
    [("Cy", 19, 400)],  # Cy scores
    [("Ada", 21, 310), ("Eve", 10, 50)],  # Ada is promoted out of the range
]
held: Entries = []
for batch in batches:
    rows = [dict(zip(("name", "level", "points"), row, strict=True)) for row in batch]
    changes = engine.publish("players", rows).to_pylist()
    held = apply(held, [change for change in changes if change["subscription"] == board])
    print([change["op"] + " " + change["key"] for change in changes])
    print("  board:", ", ".join(f"{entry['key']} {entry['score']:.0f}" for entry in held))

# The subscriber never asked for the whole answer, and has it.
assert [entry["key"] for entry in held] == engine.result(board)["name"].to_pylist()

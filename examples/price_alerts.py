"""Price alerts: emit an alert at the very trade that brings the volume in a price range to its threshold.

Output:

    3 alerts registered
    trade 2: cheap reached 850 of 800 shares
    trade 3: any-1000 reached 1150 of 1000 shares
    trade 5: any-1000 reached 1700 of 1000 shares
    still counting: dear has 500 of 900 shares
"""

import tocsin

engine = tocsin.Engine()
engine.create_stream("trades", columns={"price": "double", "shares": "bigint"})

# One template, one subscription for each row of parameters. `repeat` re-arms an alert after it has fired.
alerts = {"id": ["cheap", "any-1000", "dear"], "lo": [0.0, 0.0, 20.0], "hi": [10.0, 1e9, 1e9]}
wanted = {"cheap": 800, "any-1000": 1000, "dear": 900}
count = engine.subscribe_many(
    "SELECT SUM(shares) FROM trades WHERE price BETWEEN :lo AND :hi HAVING SUM(shares) >= :tau",
    {**alerts, "tau": list(wanted.values())},
    repeat=True,
)
print(count, "alerts registered")

trades = [(9.5, 400), (12.0, 0), (10.0, 450), (15.0, 300), (21.0, 500), (11.0, 1200)]
rows = [{"price": price, "shares": shares} for price, shares in trades]
for change in engine.publish("trades", rows).to_pylist():
    sid, weight = change["subscription"], change["score"]
    print(f"trade {change['seq']}: {sid} reached {weight:.0f} of {wanted[sid]} shares")

(weight,) = engine.result("dear").to_pylist()
print(f"still counting: dear has {weight['SUM(shares)']} of {wanted['dear']} shares")

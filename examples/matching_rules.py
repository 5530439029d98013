"""Rules over sparse events: which rules does an event satisfy, which are worth most, and why not the others?

Output:

    event 0: students (0.8)
    event 0: adults (0.2)
    event 0: in Oslo (1.0)
    event 1: loyal (2.0)
    event 1: in Rome (1.0)
    event 2: adults (0.2)
    the best for event 3: ['in Oslo']
    subscription: loyal
    source: visitors
    event: no match, 1 of 2 predicates hold
      1: visits at least 10.0: holds, the event has 12.0; weight 1.0
      2: city none of ['Paris']: fails, the event has 'Paris'; weight 1.0
"""

import tocsin

engine = tocsin.Engine()
engine.create_stream("visitors")  # no columns: an event has any attributes

# Different rules, one statement each; a weight says what a condition is worth.
rules = {
    "students": "WEIGHT(age BETWEEN 18 AND 25, 0.5) AND WEIGHT(city IN ('Oslo', 'Bergen'), 0.3)",
    "loyal": "visits >= 10 AND city <> 'Paris'",
    "adults": "WEIGHT(age >= 18, 0.2)",
}
for name, condition in rules.items():
    engine.subscribe(f"SELECT * FROM visitors WHERE {condition}", id=name)

# Many rules of one template: parameters as columns.
cities = ["Oslo", "Rome", "Lima"]
engine.subscribe_many(
    "SELECT * FROM visitors WHERE city = :city", {"id": [f"in {city}" for city in cities], "city": cities}
)

events = [{"age": 22, "city": "Oslo"}, {"city": "Rome", "visits": 12}, {"age": 40, "city": "Paris"}]
for change in engine.publish("visitors", events).to_pylist():
    print(f"event {change['key']}: {change['subscription']} ({change['score']:.1f})")

print("the best for event 3:", engine.publish("visitors", events[:1], top=1)["subscription"].to_pylist())
print(engine.explain("loyal", {"city": "Paris", "visits": 12}))

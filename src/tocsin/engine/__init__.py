"""The engine: sources, subscriptions, rows in, changes out. It knows no algorithm."""

"""The parts of `tocsin watch`: inputs and their formats, subscriptions, the session, and its outputs."""

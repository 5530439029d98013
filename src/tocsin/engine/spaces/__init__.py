"""Subscription spaces of an engine, and the messages that describe changes to them."""

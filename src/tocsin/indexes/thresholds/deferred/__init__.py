"""Deferred thresholds: events are logged, and a subscription is evaluated when it may have matured."""

"""The threshold scan: every event is compared with every subscription."""

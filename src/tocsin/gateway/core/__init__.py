"""Hub: sources, subscriptions and their answers, durable in one folder; no network and no clock."""

"""How a change of rows becomes messages: for all possible subscriptions, or for those that exist."""

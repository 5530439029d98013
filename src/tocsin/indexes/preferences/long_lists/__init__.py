"""Long lists: each subscription's in an order-statistics tree."""

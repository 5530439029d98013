"""A gateway fed by a job over NATS: subscriptions to the job's spaces, answered by network edges."""

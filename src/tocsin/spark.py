"""Standing queries in a Spark program: `standing_queries` gives a frame, `start` runs a whole job."""

from tocsin.pipeline.frames import standing_queries
from tocsin.pipeline.jobs import Job, JobError
from tocsin.pipeline.running import session, start

__all__ = ["Job", "JobError", "session", "standing_queries", "start"]

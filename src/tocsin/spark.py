"""Standing queries in a Spark program: `standing_queries` returns a DataFrame, `start` runs a whole job."""

from tocsin.pipeline.frames import standing_queries
from tocsin.pipeline.job.errors import JobError
from tocsin.pipeline.job.jobs import Job
from tocsin.pipeline.job.running import session, start

__all__ = ["Job", "JobError", "session", "standing_queries", "start"]

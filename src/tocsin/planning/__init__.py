"""From a plan to the index that maintains it."""

from tocsin.planning.messages import make_distinct_messages, make_ranked_messages
from tocsin.planning.named import INDEXES, check_choice, check_indexes, choice_of
from tocsin.planning.questions import KINDS, STREAM, TABLE, WINDOW, Answering, Question, question_of
from tocsin.planning.rules import explain, make_index

__all__ = [
    "INDEXES",
    "KINDS",
    "STREAM",
    "TABLE",
    "WINDOW",
    "Answering",
    "Question",
    "check_choice",
    "check_indexes",
    "choice_of",
    "explain",
    "make_distinct_messages",
    "make_index",
    "make_ranked_messages",
    "question_of",
]

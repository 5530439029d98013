"""COUNT, SUM and AVG over the rows inside ranges and regions."""

/* Seeds that failed once: CASE(row, seed, faults that it needs, what it showed). `make sim` runs them first. */

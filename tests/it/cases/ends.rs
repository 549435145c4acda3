//! Cases of runs of QitOS and of board: ends, limits and totals on which records disagree.

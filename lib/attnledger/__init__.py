"""The library behind The Attention Ledger: operators, costs, and what its pages show things with."""

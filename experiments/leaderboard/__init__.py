"""The leaderboard of credit schemes: protocol.md, fixed before the first run, and what draws its table and figure."""

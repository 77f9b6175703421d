"""Many drives: campaigns, metrics, results, comparison."""

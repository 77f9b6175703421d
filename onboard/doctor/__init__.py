"""`onboard doctor`: everything that a person would ask on the phone, each with what to do about it. Moves nothing."""

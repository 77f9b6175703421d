"""`onboard dashboard`: one page for phone and laptop that shows a running robot and stops it."""

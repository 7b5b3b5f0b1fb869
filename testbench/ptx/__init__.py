"""Tests of the PTX front end, its interpreter and its command."""

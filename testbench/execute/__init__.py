"""The lanes: every form of their instructions; the lanes as other units see them."""

"""Who works next, and the service that composes the parts."""

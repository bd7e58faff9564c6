"""What the roles are told and who works next."""

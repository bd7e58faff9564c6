"""`python -m teams_runtime` is the `teams-runtime` command."""

from teams_runtime.cli.main import main

if __name__ == "__main__":
    main()

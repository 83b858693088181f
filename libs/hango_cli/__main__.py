"""`python -m hango_cli`."""

from hango_cli.main import main

if __name__ == "__main__":
    main()

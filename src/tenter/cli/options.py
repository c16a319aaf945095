"""The options that several verbs have, said once."""

import click

config_option = click.option("--config", "-c", default="tenter.yaml", show_default=True, help="The configuration file.")

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")

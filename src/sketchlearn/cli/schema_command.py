"""`sketchlearn schema`: how the columns of a table can become numbers."""

from __future__ import annotations

from sketchlearn.cli import options
from sketchlearn.cli.input_output import check_paths, files_from, report, rows_from, write


def schema(
    data: options.Data,
    output: options.SchemaOutput = None,
    exclude: options.Exclude = None,
    delimiter: options.Delimiter = None,
    decimal: options.Decimal = None,
    header: options.Header = None,
    encoding: options.Encoding = None,
    json: options.Json = False,
) -> None:
    """Propose how the columns of a table become numbers: text, categories, dates and flags, too.

    Read the table that is printed, edit the file of -o if you know better, and give it to design: all who share the
    design then encode alike.

    \b
    Example:
      sketchlearn schema day1.csv
      sketchlearn schema day1.csv -o schema.json
      sketchlearn design day1.csv -k 3 --schema schema.json --rows 500 -o encoded.json
    """
    from sketchlearn.cli.input_output import source_arguments
    from sketchlearn.files.designs import schema_to_bytes
    from sketchlearn.rows.source import schema as proposed

    paths = files_from(data)
    check_paths(paths, [output], json=json)
    arguments = source_arguments(None, "error", exclude, False, delimiter, decimal, header, encoding)
    found = proposed(rows_from(paths, **arguments))
    if output is not None:
        write(output, schema_to_bytes(found))
    report(json, {"output": output, "schema": found.to_json()}, *str(found).splitlines(), output=output)

"""A contract type for import-linter: certain modules import nothing but the standard library.

import-linter itself forbids packages by name only, and a list of names would let the next one in.
"""

import sys
from collections.abc import Iterator

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output
from importlinter.application import contract_utils
from importlinter.domain import helpers


class StandardLibraryOnly(Contract):
    """What importing `modules` loads is the standard library, `modules`, `also`, and no more.

    Options: `modules` and `also`, module expressions that include what lies below them, each of
    which must exist; `ignore_imports`, imports let through, each of which must exist as well.

    Imports are followed through `modules`, `also` and the `__init__` of every package above them,
    which Python runs too.
    """

    type_name = "standard_library_only"

    modules = fields.SetField(subfield=fields.ModuleExpressionField())
    also = fields.SetField(subfield=fields.ModuleExpressionField(), required=False)
    ignore_imports = fields.SetField(subfield=fields.ImportExpressionField(), required=False)

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: FBT001  (theirs)
        """Find the imports that lead elsewhere: `metadata["wrong"]`, as (importer, imported)."""
        output.verbose_print(verbose, "Following imports.")
        warnings = contract_utils.remove_ignored_imports(
            graph=graph,
            ignore_imports=self.ignore_imports,
            unmatched_alerting=contract_utils.AlertLevel.ERROR,
        )
        start = self._named(graph, self.modules)
        ours = start | self._named(graph, self.also or set())
        ours |= {above for module in ours for above in _packages_above(module)}
        wrong = set()
        seen: set[str] = set()
        todo = list(start)
        while todo:
            importer = todo.pop()
            if importer in seen:
                continue
            seen.add(importer)
            todo += _packages_above(importer)
            for imported in graph.find_modules_directly_imported_by(importer):
                if imported in ours:
                    todo.append(imported)
                elif imported not in sys.stdlib_module_names:
                    wrong.add((importer, imported))
        return ContractCheck(kept=not wrong, warnings=warnings, metadata={"wrong": sorted(wrong)})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print one line for each wrong import."""
        for importer, imported in check.metadata["wrong"]:
            output.print_error(f"{importer} imports {imported}", bold=False)

    def _named(self, graph: ImportGraph, expressions: set[object]) -> set[str]:
        found = helpers.module_expressions_to_modules(
            graph, expressions, as_packages=True, raise_if_unmatched=True
        )
        return {module.name for module in found}


def _packages_above(module: str) -> Iterator[str]:
    while "." in module:
        module = module.rpartition(".")[0]
        yield module

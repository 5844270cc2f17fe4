from memory_retrievers import RetrievalSettings
from memory_retrievers.evaluation.report import GRID, ROWS, ablations, difference_from_default, grid


def test_every_row_of_the_ablation_differs_from_the_default_and_from_every_other():
    rows = ablations()
    assert set(rows) == set(ROWS)
    for settings in rows.values():
        assert settings != RetrievalSettings()
        assert sum(settings == other for other in rows.values()) == 1


def test_the_grid_holds_every_combination_but_the_default():
    number = 1
    for field, values in GRID.items():
        number *= len(values)
        assert getattr(RetrievalSettings(), field) in values, f"the default of {field} must be on the grid"
    assert len(grid()) == number - 1
    assert RetrievalSettings() not in grid().values()


def test_the_name_of_a_setting_makes_it_again():
    for name, settings in grid().items():
        assert eval(f"RetrievalSettings({name})", {"RetrievalSettings": RetrievalSettings}) == settings  # noqa: S307


def test_the_default_differs_in_nothing():
    assert difference_from_default(RetrievalSettings()) == ""

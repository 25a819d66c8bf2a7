"""Rates of a model with the points that prove them: a table without its evidence is not believed."""

from tokenbench.ledger.attribution.calibration import ModelRates, Point
from tokenbench.ledger.attribution.fitting import fit
from tokenbench.ledger.model import Tokens


def proved_rates(characters_per_token: float) -> ModelRates:
    """What a calibration would have measured of code: this rate, pieces scattering by 5 % about it."""
    characters = round(characters_per_token * 10_000)
    points = tuple(
        Point(shape="code", piece=f"a.py:{tokens}", characters=characters, tokens=tokens)
        for tokens in (9_500, 10_000, 10_500)
    )
    rate = fit([(point.characters, point.tokens) for point in points])
    assert rate is not None
    return ModelRates(rates={"code": rate}, points=points, spent=Tokens())

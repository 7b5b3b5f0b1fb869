"""The conversion unit: bit counts, conversions, the reciprocal."""

from .decode import ConversionDecoder
from .unit import ConversionUnit

__all__ = ["ConversionDecoder", "ConversionUnit"]

"""Inspection: one HTML file that shows what a memory holds, how it fades, and why a question is answered as it is.

The file needs nothing else: no script, font or style is loaded from anywhere, and a policy in its head has the browser
refuse whatever tries. Texts of memories are data in it and never become markup. Looking changes nothing in the store.
"""

from memory_retrievers.inspection.page import page_of
from memory_retrievers.inspection.survey import DEFAULT_LIMIT, Question, ScopeSurvey, Survey, survey_of

__all__ = ["DEFAULT_LIMIT", "Question", "ScopeSurvey", "Survey", "page_of", "survey_of"]

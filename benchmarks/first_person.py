"""Who is answered by the default floor: people who ask about themselves in other words than they told it.

Each of the sentences is told in a conversation of its own, with a question about something else beside it, as people
talk to an assistant; then each is asked for. What everybody may know, and tasks in the first person, are asked of the
same memory, which has nothing for them. All of them were written for this package; the second set after the weight
was chosen.

    python benchmarks/first_person.py
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from memory_retrievers import AgentMemory
from memory_retrievers.settings import MAX_TOKENS
from memory_retrievers.testing import FixedClock
from memory_retrievers.text.analysis import estimate_tokens

SCOPE: Final = "user/ines"
BESIDE: Final = (
    "Can you write a haiku about rain?",
    "What's the capital of Peru?",
    "How do I reverse a list in Python?",
    "Explain black holes to a child.",
    "Give me a recipe for pancakes.",
    "Translate 'good night' to Italian.",
)
"""What is asked in the same conversations."""

CHOSEN_ON: Final = (
    ("I'm allergic to penicillin, by the way.", "Which medicine must I avoid?"),
    ("My daughter Emma starts school in September.", "When does my kid begin school?"),
    ("We're getting married on the 14th of June.", "What's the date of the wedding?"),
    ("I can't stand cilantro.", "Which herb do I dislike?"),
    ("Our wifi password is bluewhale77.", "How do I get on the internet at home?"),
    ("The plumber is called Mr. Novak, his number is 555-0199.", "Who fixes our pipes?"),
    ("I usually run along the river before breakfast.", "What exercise do I do in the morning?"),
    ("My flight to Tokyo leaves at 7:40 on Friday.", "When do I fly to Japan?"),
    ("I finally finished reading Middlemarch.", "Which novel did I complete?"),
    ("Grandma had a hip operation last Tuesday.", "Why is my grandmother in hospital?"),
    ("I drive a red Skoda Octavia.", "What car do I have?"),
    ("The landlord raised the rent to 1,250 euros.", "How much do I pay for the flat?"),
    ("I'm learning Portuguese with an app.", "Which language am I studying?"),
    ("My boss wants the quarterly report by the 3rd.", "What's due at the office?"),
    ("We adopted a beagle, he's called Biscuit.", "What's our dog's name?"),
    ("I hurt my left knee while skiing.", "Which joint is injured?"),
    ("Please always answer in short bullet points.", "How should replies be formatted?"),
    ("My brother lives in Toronto with his husband.", "Where's my sibling based?"),
    ("I've booked a table at Luigi's for Saturday, 8 pm.", "Where are we eating at the weekend?"),
    ("I take my coffee black, no sugar.", "How do I like my coffee?"),
    ("The project is built with Rust and uses Postgres.", "What's our tech stack?"),
    ("I get migraines whenever I skip lunch.", "What triggers my headaches?"),
    ("My sister's birthday is the 2nd of November.", "When should I send my sister a present?"),
    ("I'm vegetarian, but I eat eggs.", "Can I have a steak?"),
    ("I play bass in a band called Night Ferry.", "What's the name of my band?"),
    ("We spent the summer in Crete and loved it.", "Where did we go on holiday?"),
    ("My doctor told me to cut down on salt.", "What did the physician recommend?"),
    ("I'm saving for an electric bike.", "What am I putting money aside for?"),
    ("I was born in Gdansk.", "What's my birthplace?"),
    ("The cat is afraid of the vacuum cleaner.", "What scares the cat?"),
    ("I work night shifts at the hospital this month.", "What are my working hours?"),
    ("I left my umbrella at Tom's place.", "Where is my umbrella?"),
    ("I prefer window seats.", "Where do I want to sit on the plane?"),
    ("My son got into the swim team!", "What sport does my boy do?"),
    ("I have an appointment with the dentist on Monday at nine.", "What do I have on Monday?"),
    ("My favourite film is Spirited Away.", "Which movie do I like best?"),
    ("I owe Marta forty euros.", "Who do I have to pay back?"),
    ("I deploy with GitHub Actions to Hetzner.", "Where is my app hosted?"),
    ("I'm 34 and live alone.", "How old am I?"),
    ("My mother speaks only Polish.", "Which language does my mum speak?"),
)
"""Sentences and questions that the weight was chosen on."""

LEFT_OUT: Final = (
    ("I graduated in Business Administration, and it has helped me a lot at work.", "What degree did I graduate with?"),
    ("My commute takes 45 minutes each way, so I listen to audiobooks.", "How long do I travel to the office?"),
    (
        "I redeemed a five dollar coupon on coffee creamer at Target last Sunday.",
        "At which store did I use my discount voucher?",
    ),
    ("I've been using the guest room as a darkroom for my photos.", "Where do I develop pictures?"),
    ("My cousin's getting married at the Grand Ballroom.", "Which venue did we discuss for the family event?"),
    ("I upgraded my RAM to 16 gigabytes.", "How much memory does my laptop have?"),
    ("I bake sourdough every other weekend.", "What do I do in the kitchen on weekends?"),
    ("My yoga class is on Tuesdays at Serenity Studio.", "Where do I practise yoga?"),
    ("I painted the bedroom walls light grey.", "What colour is my bedroom?"),
    ("I had an Orlando trip with the kids in March.", "Which city did I visit with my children?"),
    ("My new tennis racket came from the sports shop downtown.", "Where did I get my sports gear?"),
    ("I got a blue tit box for the garden and two pairs moved in.", "What animals live in our yard?"),
    ("My therapist suggested keeping a gratitude journal.", "What did the counsellor tell me to write?"),
    ("I switched my internet provider to FiberNet, 500 Mbps.", "How fast is my connection?"),
    ("My nephew wants a telescope for Christmas.", "What should I give him as a gift?"),
    ("I quit smoking on New Year's Day.", "Since when am I free of cigarettes?"),
    ("My blood pressure was 142 over 90 at the check-up.", "What was measured by the nurse?"),
    ("I play chess online as KnightRider77.", "What's my handle on the gaming site?"),
    ("I've got three siblings, all older.", "Am I the youngest?"),
    ("I bought the sofa on credit, 12 instalments.", "How am I paying for the couch?"),
    ("My thesis is about bees and pesticides.", "What's my research topic?"),
    ("Our anniversary dinner was a disaster, the oven caught fire.", "What went wrong when we celebrated?"),
    ("I can read music but I can't sing.", "Should I join a choir?"),
    ("I volunteer at the animal shelter on Sundays.", "What charity work am I doing?"),
    ("My passport runs out in August.", "Which document do I need to renew?"),
    ("My neighbour Olga waters the plants when we're gone.", "Who looks after our flowers?"),
    ("I never eat breakfast.", "Do I skip a meal?"),
    ("I'm afraid of heights.", "Would I enjoy a hot-air balloon ride?"),
    ("My daughter is lactose intolerant.", "Which dessert is safe for our girl?"),
    ("I drive to my mother's every Thursday.", "When do I see my mum?"),
)
"""Those that were written afterwards."""

GENERAL: Final = (
    "What's the capital of France?",
    "How do I center a div?",
    "Write a poem about autumn",
    "Explain recursion",
    "What is the boiling point of water?",
    "Who wrote Hamlet?",
    "Convert 5 miles to km",
    "Summarize this article for me",
    "What's 17 times 23?",
    "Give me ideas for a party game",
    "How does photosynthesis work?",
    "Fix this bug: IndexError: list index out of range",
    "What is the meaning of life?",
    "Draft an email to decline an invitation",
    "Which is heavier, gold or lead?",
    "Tell me about the French Revolution",
    "What's a good name for a startup?",
    "How do vaccines work?",
    "Who is the president of the USA?",
    "Recommend a podcast about history",
)
"""What everybody may know."""

TASKS: Final = (
    "Why does my code crash when I press the button?",
    "Can you improve my essay about climate?",
    "How do I center a div?",
    "My Python script prints nothing, why?",
    "Help me plan a lesson on fractions",
    "What should I write in my cover letter for a bank?",
    "I get a segmentation fault, what now?",
    "How can I learn to juggle?",
    "Give me ten names for a cat cafe",
    "Is my sentence grammatically correct?",
    "Should I use a list or a tuple?",
    "I'm writing a short story about dragons",
    "Rewrite my paragraph in a formal tone",
    "What does this error in my terminal mean?",
    "How many calories are in my banana?",
    "How do I boil an egg?",
    "I need a regex for email addresses",
    "What can I do against hiccups?",
    "My model overfits, what can I try?",
    "Where can I buy cheap concert tickets?",
)
"""Tasks, most of them in the first person."""


def filled(sentences: Sequence[str], *, as_facts: bool) -> AgentMemory:
    """A memory that was told these sentences, one a day."""
    clock = FixedClock(datetime(2026, 1, 1, 9, tzinfo=UTC))
    memory = AgentMemory.in_memory(clock=clock)
    for number, sentence in enumerate(sentences):
        if as_facts:
            memory.remember_fact(scope=SCOPE, fact=sentence)
        else:
            turns = (sentence, "Thanks, I'll keep that in mind.", BESIDE[number % len(BESIDE)], "Sure, here you go.")
            roles = ("user", "assistant") * 2
            messages = [{"role": role, "content": text} for role, text in zip(roles, turns, strict=True)]
            memory.add_messages(SCOPE, messages, conversation=str(number))
        clock.advance(days=1)
        memory.process_due()
    return memory


def recalled(memory: AgentMemory, question: str, *, by_floor: bool) -> str:
    """The block that a model reads."""
    found = memory.retrieve(question, scope=SCOPE, record=False, min_relevance="auto" if by_floor else 0.0)
    return found.to_markdown(max_tokens=MAX_TOKENS)


def row(pairs: Sequence[tuple[str, str]], *, as_facts: bool) -> Iterator[str]:
    """The cells of one set."""
    with filled([sentence for sentence, _ in pairs], as_facts=as_facts) as memory:
        whole, blocks = (
            [recalled(memory, question, by_floor=by_floor) for _, question in pairs] for by_floor in (False, True)
        )
        for each in (whole, blocks):
            yield f"{sum(sentence in block for (sentence, _), block in zip(pairs, each, strict=True))} of {len(pairs)}"
        for questions in (GENERAL, TASKS):
            yield f"{sum(not recalled(memory, each, by_floor=True) for each in questions)} of {len(questions)}"
        yield f"{sum(map(estimate_tokens, blocks)) / len(blocks):.0f}"


def main() -> None:
    """Print the table."""
    print("| told as | set | found | and above the floor | general: silent | tasks: silent | tokens for a question |")
    print("|---|---|--:|--:|--:|--:|--:|")
    for as_facts in (False, True):
        for name, pairs in (("chosen on", CHOSEN_ON), ("left out", LEFT_OUT)):
            told_as = "facts" if as_facts else "conversations"
            print(f"| {told_as} | {name} | {' | '.join(row(pairs, as_facts=as_facts))} |")


if __name__ == "__main__":
    main()

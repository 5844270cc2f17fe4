"""English sentences and questions about them from a seed: statements of the kind an agent remembers, all distinct.

Every template is a statement and a question about the like; both are filled from the same lists. Several dozen of them
spread the vectors over the space as memories about different things do, while the many fillings of one template lie
close together, which is what makes a nearest neighbour hard to find.
"""

from __future__ import annotations

import random
import string
from typing import Final

LISTS: Final = {
    "person": "Anna Boris Carmen David Elif Farid Greta Hiro Ines Jonas Keiko Liam Marta Noor Oskar Priya Quentin Rosa "
    "Samuel Tomas Uma Viktor Wanda Xavier Yusuf Zoe Amara Bruno Chloe Dmitri Esther Fatima Gustav Helena Ibrahim Jana",
    "city": "Lyon Osaka Porto Gdansk Nairobi Lima Bergen Turin Austin Hanoi Split Ghent Quito Tbilisi Malmo Cork Izmir "
    "Halifax Perth Leipzig Seville Krakow Montreal Accra Busan Graz Bilbao Riga Pune Tunis Dundee Antwerp",
    "food": "lentil soup,sourdough bread,mushroom risotto,peanut butter,goat cheese,roasted aubergine,fish tacos,"
    "plum cake,black coffee,spinach pie,ramen,oat porridge,chickpea curry,smoked salmon,lemon tart,kimchi,olives,"
    "potato salad,dark chocolate,miso,walnut bread,green tea,couscous,apple strudel",
    "job": "nurse,carpenter,data analyst,pastry cook,tram driver,architect,translator,vet,school teacher,electrician,"
    "librarian,lawyer,sound engineer,gardener,pharmacist,journalist,midwife,welder,accountant,photographer,surveyor",
    "animal": "tabby cat,greyhound,parrot,tortoise,rabbit,pony,canary,hamster,ferret,beagle,goldfish,donkey,collie",
    "thing": "bicycle,cello,laptop,kettle,raincoat,tent,record player,sewing machine,camera,bookshelf,canoe,telescope,"
    "washing machine,rucksack,piano,printer,lawn mower,wool blanket,espresso machine,guitar,headphones,skateboard",
    "topic": "medieval history,machine learning,bird migration,urban planning,jazz harmony,tax law,plate tectonics,"
    "game theory,ceramics,organic farming,cryptography,the Ottoman Empire,film editing,marine biology,calligraphy,"
    "statistics,Italian opera,beekeeping,typography,quantum physics,bread baking,woodcarving,local elections",
    "sport": "swimming,chess,rowing,judo,table tennis,climbing,running,badminton,fencing,volleyball,sailing,cycling",
    "illness": "migraine,hay fever,a sprained ankle,asthma,back pain,a broken wrist,insomnia,a chest infection,eczema,"
    "high blood pressure,a torn ligament,tonsillitis",
    "relative": "sister,brother,mother,father,aunt,uncle,cousin,grandmother,daughter,son,neighbour,flatmate,godfather",
    "month": "January February March April May June July August September October November December",
    "day": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    "color": "red green navy yellow white grey orange purple turquoise black brown pink",
    "language": "Portuguese Japanese Turkish Polish Swahili Greek Finnish Arabic Catalan Dutch Korean Hungarian Welsh",
    "software": "PostgreSQL,Kubernetes,the billing service,the mobile app,the data pipeline,the login page,Redis,"
    "the search index,the build server,the payment gateway,the newsletter tool,the reporting dashboard,the mail relay",
    "fault": "a memory leak,an expired certificate,a full disk,a wrong time,a missing index,a typo in the settings,"
    "a race condition,an outdated driver,a broken migration,a misrouted queue,a blocked port,a stale cache",
    "instrument": "violin,saxophone,harp,drums,accordion,flute,double bass,trumpet,mandolin,clarinet,organ,ukulele",
    "event": "wedding,graduation,trade fair,housewarming,job interview,book launch,family reunion,charity run,concert,"
    "christening,retirement party,conference,school play,court hearing",
    "number": " ".join(str(number) for number in range(2, 60)),
    "year": " ".join(str(year) for year in range(1975, 2026)),
    "amount": " ".join(str(amount) for amount in range(120, 9_000, 35)),
    "hour": " ".join(f"{hour}:{minute:02d}" for hour in range(7, 22) for minute in (0, 15, 30, 45)),
}

TEMPLATES: Final = """
{person} moved from {city} to {city2} in {year}. | When did {person} move to {city2}?
{person} works as a {job} in {city}. | What is {person}'s job in {city}?
{person}'s {relative} is called {person2} and lives in {city}. | Where does {person}'s {relative} live?
{person} is allergic to {food} and carries an inhaler since {year}. | What must {person} not eat?
{person} cooks {food} every {day} for {number} people. | What does {person} cook on {day}?
{person} adopted a {color} {animal} in {month} {year}. | Which animal did {person} adopt?
The {animal} of {person} had to see the vet in {city} on {day}. | Why was {person}'s {animal} taken to {city}?
{person} bought a {color} {thing} for {amount} euros. | How much did {person} pay for the {thing}?
{person} lost the {thing} on the train to {city} in {month}. | Where did {person} lose the {thing}?
{person} lent {person2} a {thing} until {month} {year}. | Who has {person}'s {thing}?
{person} is reading a book on {topic} by {person2}. | What is {person} reading about {topic}?
{person} gave a lecture about {topic} in {city} in {year}. | Where did {person} speak about {topic}?
{person} wants to learn {language} before {month} {year}. | Which language does {person} want to learn?
{person} speaks {language} with {person2} at home. | Who speaks {language} at home?
{person} has trained {sport} {number} hours a week since {year}. | How often does {person} train?
{person} won the {sport} tournament of {city} in {year}. | Who won the {sport} tournament in {city}?
{person} gave up {sport} because of {illness} in {month} {year}. | Why does {person} no longer do {sport}?
{person} has been treated for {illness} by Doctor {person2} since {month}. | Who treats {person}'s {illness}?
The appointment of {person} at the clinic in {city} is on {day} at {hour}. | When is {person}'s appointment in {city}?
{person} takes {number} milligrams of a remedy for {illness} at {hour}. | How much does {person} take against {illness}?
{person} was born in {city} in {month} {year}. | When was {person} born?
{person} and {person2} married in {city} in {month} {year}. | In which year did {person} and {person2} marry?
{person} invited {number} guests to the {event} in {city}. | How many guests come to {person}'s {event}?
The {event} of {person} was postponed from {day} to {month}. | Until when was {person}'s {event} postponed?
{person} plays the {instrument} in a band from {city}. | Which instrument does {person} play?
{person} sold the old {instrument} to {person2} for {amount} euros. | Who bought {person}'s {instrument}?
{person} pays {amount} euros of rent for a flat in {city}. | What rent does {person} pay in {city}?
{person} owes {person2} {amount} euros since {month} {year}. | How much money does {person} owe {person2}?
{person} saves {amount} euros a year for a trip to {city}. | What is {person} saving money for?
{person} transferred {amount} euros to {person2} on {day} for the {event}. | What did {person} pay {person2} for?
{software} failed on {day} at {hour} because of {fault}. | Why did {software} fail on {day}?
{person} mended {fault} in {software} in {month} {year}. | Who repaired {fault} in {software}?
The team in {city} will replace {software} by {month} {year}. | When will {software} be replaced in {city}?
{person} asked for {number} more servers for {software}. | How many servers does {software} need?
{person} reviews every change of {software} together with {person2}. | Who reviews changes of {software}?
The backup of {software} runs at {hour} and keeps {number} days. | When does the backup of {software} run?
{person} flies from {city} to {city2} on {day} at {hour}. | When does {person} fly to {city2}?
{person} missed the bus to {city} and arrived at {hour}. | Why was {person} late in {city}?
{person} spent {number} days hiking near {city} in {month}. | How long was {person} hiking near {city}?
{person} stayed with {person2} in {city} during the {event}. | With whom did {person} stay in {city}?
{person} prefers {food} to {food2} for breakfast. | What does {person} like for breakfast?
{person} does not drink coffee after {hour} because of {illness}. | Why does {person} avoid coffee after {hour}?
{person} painted the kitchen {color} and the hall {color2} in {month}. | Which color is {person}'s kitchen?
{person} grows tomatoes and {number} kinds of herbs in {city}. | What does {person} grow in {city}?
{person} teaches {topic} at the evening school of {city} on {day}. | Where does {person} teach {topic}?
{person} failed the exam in {topic} by {number} points in {year}. | How did {person} do in the exam on {topic}?
{person} wrote a thesis on {topic} under Professor {person2}. | Who supervised {person}'s thesis on {topic}?
{person} wants every answer in {language} and in at most {number} words. | How long should answers for {person} be?
{person} asked not to be called before {hour} on {day}. | When should {person} not be called?
{person}'s {thing} broke after {number} months and was repaired in {city}. | What happened to {person}'s {thing}?
{person}'s {relative} taught {person2} the {instrument} in {year}. | Who taught {person2} to play the {instrument}?
{person} voted against the new {sport} hall in {city} in {year}. | What did {person} think of the {sport} hall?
{person} founded a club for {topic} with {number} members in {city}. | How many members has {person}'s club in {city}?
{person} was elected mayor of {city} with {number} percent of the votes. | What share of the votes did {person} get?
{person} hides the spare key under the {color} {thing}. | Where is {person}'s spare key?
{person} promised {person2} a {thing} for the {event} in {month}. | What did {person} promise {person2}?
{person} dreamed of a {color} {animal} playing the {instrument}. | What did {person} dream of?
{person} would like to retire to {city} and keep {number} {animal}s. | What does {person} plan for retirement?
""".strip().splitlines()


def statements(count: int, *, seed: int) -> list[str]:
    """Distinct sentences, as many of each template as of any other."""
    source = random.Random(seed)
    found: dict[str, None] = {}
    while len(found) < count:
        statement, _ = TEMPLATES[len(found) % len(TEMPLATES)].split(" | ")
        found[_filled(statement, source)] = None  # one that was there before is drawn again
    return list(found)


def questions(count: int, *, seed: int) -> list[str]:
    """Questions of the same kind, in turn from every template."""
    source = random.Random(seed)
    return [_filled(TEMPLATES[number % len(TEMPLATES)].split(" | ")[1], source) for number in range(count)]


def _filled(template: str, source: random.Random) -> str:
    """Every ``{name}`` and ``{name2}`` replaced by something from its list, the two never by the same."""
    chosen: dict[str, str] = {}
    for _, name, _, _ in string.Formatter().parse(template):
        if name and name not in chosen:
            choices = _choices(name.rstrip("2"))
            chosen[name] = source.choice([choice for choice in choices if choice not in chosen.values()])
    text = template.format_map(chosen)
    return text[0].upper() + text[1:]


def _choices(name: str) -> list[str]:
    entries = LISTS[name]
    return entries.split(",") if "," in entries else entries.split()

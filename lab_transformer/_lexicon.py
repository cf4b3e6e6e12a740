"""The words of the corpus, as tables.

Columns are separated by two spaces or more. A noun has one or more kinds; verbs and adjectives name the
kinds that go with them, so that nobody eats a window. Gender is a matter of each language: a cat is
masculine in Italian and feminine in Hindi. Where English does not say whether somebody is a man or a
woman, the tables do, and not by who is thought to do such work: this teacher and this writer are women.
What is not in the tables follows from the endings.
"""

import unicodedata

# English singular and plural; Italian singular, plural, gender; Hindi singular, gender; kinds.
NOUNS = """
boy         boys         ragazzo      ragazzi      m  लड़का       m  person
girl        girls        ragazza      ragazze      f  लड़की       f  person
man         men          uomo         uomini       m  आदमी       m  person grown
woman       women        donna        donne        f  औरत        f  person grown
child       children     bambino      bambini      m  बच्चा       m  person
lady        ladies       signora      signore      f  महिला      f  person grown
farmer      farmers      contadino    contadini    m  किसान      m  person grown
student     students     studentessa  studentesse  f  छात्रा      f  person grown
teacher     teachers     maestra      maestre      f  शिक्षिका    f  person grown
friend      friends      amico        amici        m  दोस्त       m  person grown
guest       guests       ospite       ospiti       m  मेहमान     m  person grown
neighbour   neighbours   vicino       vicini       m  पड़ोसी      m  person grown
foreigner   foreigners   straniero    stranieri    m  विदेशी      m  person grown
writer      writers      scrittrice   scrittrici   f  लेखिका     f  person grown
painter     painters     pittore      pittori      m  चित्रकार    m  person grown
soldier     soldiers     soldato      soldati      m  सैनिक      m  person grown
merchant    merchants    mercante     mercanti     m  व्यापारी    m  person grown
traveller   travellers   viaggiatore  viaggiatori  m  यात्री      m  person grown
tailor      tailors      sarto        sarti        m  दर्ज़ी       m  person grown
thief       thieves      ladro        ladri        m  चोर        m  person grown
prince      princes      principe     principi     m  राजकुमार   m  person grown
princess    princesses   principessa  principesse  f  राजकुमारी  f  person grown
queen       queens       regina       regine       f  रानी       f  person grown
actress     actresses    attrice      attrici      f  अभिनेत्री    f  person grown
nurse       nurses       infermiera   infermiere   f  नर्स        f  person grown
shepherd    shepherds    pastore      pastori      m  चरवाहा     m  person grown

dog         dogs         cane         cani         m  कुत्ता       m  animal
cat         cats         gatto        gatti        m  बिल्ली      f  animal
horse       horses       cavallo      cavalli      m  घोड़ा       m  animal
cow         cows         mucca        mucche       f  गाय        f  animal
goat        goats        capra        capre        f  बकरी       f  animal
monkey      monkeys      scimmia      scimmie      f  बंदर       m  animal
elephant    elephants    elefante     elefanti     m  हाथी       m  animal
bird        birds        uccello      uccelli      m  पक्षी       m  animal
mouse       mice         topo         topi         m  चूहा       m  animal
lion        lions        leone        leoni        m  शेर        m  animal
donkey      donkeys      asino        asini        m  गधा        m  animal
bear        bears        orso         orsi         m  भालू       m  animal
rabbit      rabbits      coniglio     conigli      m  ख़रगोश     m  animal
snake       snakes       serpente     serpenti     m  साँप       m  animal
parrot      parrots      pappagallo   pappagalli   m  तोता       m  animal
fox         foxes        volpe        volpi        f  लोमड़ी      f  animal
frog        frogs        rana         rane         f  मेंढक      m  animal
hen         hens         gallina      galline      f  मुर्गी      f  animal
squirrel    squirrels    scoiattolo   scoiattoli   m  गिलहरी     f  animal

apple       apples       mela         mele         f  सेब        m  food
banana      bananas      banana       banane       f  केला       m  food
mango       mangoes      mango        manghi       m  आम         m  food
potato      potatoes     patata       patate       f  आलू        m  food
tomato      tomatoes     pomodoro     pomodori     m  टमाटर      m  food
orange      oranges      arancia      arance       f  संतरा      m  food
carrot      carrots      carota       carote       f  गाजर       f  food
cucumber    cucumbers    cetriolo     cetrioli     m  खीरा       m  food
lemon       lemons       limone       limoni       m  नींबू       m  food
pear        pears        pera         pere         f  नाशपाती    f  food
cake        cakes        torta        torte        f  केक        m  food
biscuit     biscuits     biscotto     biscotti     m  बिस्कुट     m  food
pumpkin     pumpkins     zucca        zucche       f  कद्दू        m  food

book        books        libro        libri        m  किताब      f  text
letter      letters      lettera      lettere      f  चिट्ठी      f  text
story       stories      storia       storie       f  कहानी      f  text
poem        poems        poesia       poesie       f  कविता      f  text
word        words        parola       parole       f  शब्द        m  text
message     messages     messaggio    messaggi     m  संदेश      m  text
sentence    sentences    frase        frasi        f  वाक्य       m  text
name        names        nome         nomi         m  नाम        m  text

door        doors        porta        porte        f  दरवाज़ा    m  thing opening
window      windows      finestra     finestre     f  खिड़की      f  thing opening
box         boxes        scatola      scatole      f  डिब्बा      m  thing opening
backpack    backpacks    zaino        zaini        m  बस्ता       m  thing opening
umbrella    umbrellas    ombrello     ombrelli     m  छाता       m  thing opening
table       tables       tavolo       tavoli       m  मेज़        f  thing surface
chair       chairs       sedia        sedie        f  कुर्सी      f  thing surface
bed         beds         letto        letti        m  पलंग       m  thing surface
carpet      carpets      tappeto      tappeti      m  क़ालीन     m  thing surface
stone       stones       pietra       pietre       f  पत्थर      m  thing surface
stool       stools       sgabello     sgabelli     m  स्टूल       m  thing surface
cup         cups         tazza        tazze        f  प्याला      m  thing
plate       plates       piatto       piatti       m  थाली       f  thing
knife       knives       coltello     coltelli     m  चाकू       m  thing
mirror      mirrors      specchio     specchi      m  आईना       m  thing
shoe        shoes        scarpa       scarpe       f  जूता       m  thing
shirt       shirts       camicia      camicie      f  कमीज़      f  thing
hat         hats         cappello     cappelli     m  टोपी       f  thing
key         keys         chiave       chiavi       f  चाबी       f  thing
ring        rings        anello       anelli       m  अँगूठी      f  thing
clock       clocks       orologio     orologi      m  घड़ी        f  thing
picture     pictures     quadro       quadri       m  तस्वीर     f  thing
pencil      pencils      matita       matite       f  पेंसिल      f  thing
flower      flowers      fiore        fiori        m  फूल        m  thing
rope        ropes        corda        corde        f  रस्सी      f  thing
basket      baskets      cesto        cesti        m  टोकरी      f  thing
ball        balls        palla        palle        f  गेंद        f  thing
bicycle     bicycles     bicicletta   biciclette   f  साइकिल     f  thing
car         cars         macchina     macchine     f  गाड़ी       f  thing
boat        boats        barca        barche       f  नाव        f  thing

house       houses       casa         case         f  घर         m  place
room        rooms        stanza       stanze       f  कमरा       m  place
garden      gardens      giardino     giardini     m  बगीचा      m  place
kitchen     kitchens     cucina       cucine       f  रसोई       f  place
village     villages     villaggio    villaggi     m  गाँव       m  place
city        cities       città        città        f  शहर        m  place
school      schools      scuola       scuole       f  स्कूल       m  place
forest      forests      foresta      foreste      f  जंगल       m  place
field       fields       campo        campi        m  खेत        m  place
palace      palaces      palazzo      palazzi      m  महल        m  place
hotel       hotels       albergo      alberghi     m  होटल       m  place
office      offices      ufficio      uffici       m  दफ़्तर      m  place
temple      temples      tempio       templi       m  मंदिर      m  place
hospital    hospitals    ospedale     ospedali     m  अस्पताल    m  place
library     libraries    biblioteca   biblioteche  f  पुस्तकालय   m  place
castle      castles      castello     castelli     m  क़िला      m  place
station     stations     stazione     stazioni     f  स्टेशन      m  place
stadium     stadiums     stadio       stadi        m  स्टेडियम    m  place
zoo         zoos         zoo          zoo          m  चिड़ियाघर   m  place
"""

# English; Italian masculine singular; its place beside the noun; Hindi masculine singular; kinds.
ADJECTIVES = """
small        piccolo       before  छोटा         person animal food thing place
young        giovane       before  जवान        grown
big          grande        before  बड़ा          animal food thing place
old          vecchio       before  पुराना        text thing place
tall         alto          after   लंबा         person
poor         povero        after   ग़रीब        person
rich         ricco         after   अमीर        person
happy        felice        after   ख़ुश         person
sad          triste        after   उदास        person
famous       famoso        after   मशहूर        person
clever       intelligente  after   होशियार      person
kind         gentile       after   दयालु        person
loyal        fedele        after   वफ़ादार      person animal
lazy         pigro         after   आलसी        person animal
brave        coraggioso    after   बहादुर       person animal
hungry       affamato      after   भूखा         person animal
thirsty      assetato      after   प्यासा        person animal
fat          grasso        after   मोटा         person animal
thin         magro         after   पतला         person animal
white        bianco        after   सफ़ेद        animal thing
black        nero          after   काला         animal thing
red          rosso         after   लाल         food thing
green        verde         after   हरा          food thing
yellow       giallo        after   पीला         food thing
blue         blu           after   नीला         thing
pink         rosa          after   गुलाबी       thing
sweet        dolce         after   मीठा         food
cold         freddo        after   ठंडा          food place
hot          caldo         after   गर्म         food
new          nuovo         after   नया         text thing place
long         lungo         after   लंबा         text
strange      strano        after   अजीब        text thing
important    importante    after   महत्वपूर्ण    text
simple       semplice      after   सरल         text
difficult    difficile     after   कठिन        text
interesting  interessante  after   दिलचस्प      text
clean        pulito        after   साफ़         thing place
dirty        sporco        after   गंदा          thing place
expensive    costoso       after   महँगा         thing
heavy        pesante       after   भारी        thing
round        rotondo       after   गोल         thing
quiet        tranquillo    after   शांत         place
empty        vuoto         after   ख़ाली       place
"""

# English with a plural subject, with a singular one; Italian singular, plural; Hindi stem; kinds of the
# subject; kinds of the object, or, where there is none, the prepositions that may say where. Beside an
# object anything may happen somewhere, but nobody "brings a cup in the village": `nowhere`.
VERBS = """
see        sees        vede        vedono        देख    person animal  person animal food text thing
hear       hears       sente       sentono       सुन    person animal  person animal
know       knows       conosce     conoscono     जान    person         person
recognise  recognises  riconosce   riconoscono   पहचान  person         person animal
call       calls       chiama      chiamano      बुला   person         person animal
stop       stops       ferma       fermano       रोक    person         person animal
save       saves       salva       salvano       बचा    person         person animal
catch      catches     cattura     catturano     पकड़    person animal  animal
wake       wakes       sveglia     svegliano     जगा    person         person animal
eat        eats        mangia      mangiano      खा     person animal  food
cook       cooks       cucina      cucinano      पका    person         food
cut        cuts        taglia      tagliano      काट    person         food
read       reads       legge       leggono       पढ़     person         text
write      writes      scrive      scrivono      लिख    person         text
send       sends       manda       mandano       भेज    person         text nowhere
open       opens       apre        aprono        खोल    person         opening
buy        buys        compra      comprano      ख़रीद   person         food thing
sell       sells       vende       vendono       बेच    person         food thing
bring      brings      porta       portano       ला     person         food thing nowhere
seek       seeks       cerca       cercano       ढूँढ     person animal  food thing
take       takes       prende      prendono      ले     person         thing nowhere
wash       washes      lava        lavano        धो     person         thing
show       shows       mostra      mostrano      दिखा   person         thing
hide       hides       nasconde    nascondono    छिपा   person         thing
steal      steals      ruba        rubano        चुरा    person         thing
lift       lifts       solleva     sollevano     उठा    person         thing
sleep      sleeps      dorme       dormono       सो     person animal  in on
sit        sits        siede       siedono       बैठ    person animal  in on
jump       jumps       salta       saltano       कूद    person animal  in on
run        runs        corre       corrono       दौड़    person animal  in
walk       walks       cammina     camminano     चल    person animal  in
live       lives       vive        vivono        रह     person animal  in
play       plays       gioca       giocano       खेल    person animal  in
laugh      laughs      ride        ridono        हँस    person         in
cry        cries       piange      piangono      रो     person         in
sing       sings       canta       cantano       गा     person         in
dance      dances      balla       ballano       नाच    person         in on
"""

# English; Italian; Hindi. All of these stand before a plural.
NUMBERS = """
two    due      दो
three  tre      तीन
four   quattro  चार
five   cinque   पाँच
six    sei      छह
seven  sette    सात
eight  otto     आठ
nine   nove     नौ
ten    dieci    दस
"""

# English; Italian; Hindi. "every morning" opens a sentence.
TIMES = """
day      giorno   दिन
morning  mattina  सुबह
evening  sera     शाम
"""

# English; Italian; Hindi.
ADVERBS = """
often   spesso  अक्सर
always  sempre  हमेशा
"""

# Devanagari letters in Latin ones: consonants, which carry an unwritten vowel a; vowels; their signs.
CONSONANTS = """
क k   ख kh   ग g   घ gh   ङ ṅ
च ch  छ chh  ज j   झ jh   ञ ñ
ट ṭ   ठ ṭh   ड ḍ   ढ ḍh   ण ṇ
त t   थ th   द d   ध dh   न n
प p   फ ph   ब b   भ bh   म m
य y   र r    ल l   व v
श sh  ष sh   स s   ह h
"""
VOWELS = """
अ a  आ ā  इ i  ई ī  उ u  ऊ ū  ए e  ऐ ai  ओ o  औ au
"""
SIGNS = """
ा ā  ि i  ी ī  ु u  ू ū  े e  ै ai  ो o  ौ au
"""


def rows(table: str) -> list[list[str]]:
    """Cut a table into rows of cells, every letter in the one form that Unicode calls composed."""
    lines = filter(None, unicodedata.normalize("NFC", table).splitlines())
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines]

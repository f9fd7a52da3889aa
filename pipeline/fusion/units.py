"""Units and currencies: what follows or leads a value, under one name whatever the language."""

from __future__ import annotations

import re

_TABLE = """
nm: nanometer nanometers nanometre nanometres 纳米
um: μm µm micrometer micrometers micron microns 微米
mm: millimeter millimeters millimetre millimetres 毫米
cm: centimeter centimeters centimetre centimetres 厘米 公分
dm: decimeter decimeters decimetre 分米
m: meter meters metre metres 米
km: kilometer kilometers kilometre kilometres kms 千米 公里
in: inch inches 英寸
ft: foot feet 英尺
yd: yard yards 码
mi: mile miles 英里
mg: milligram milligrams 毫克
g: gram grams gm 克
kg: kilogram kilograms kilo kilos kgs 千克 公斤
t: ton tons tonne tonnes 吨
lb: lbs pound pounds 磅
oz: ounce ounces 盎司
jin: 斤
ml: mL milliliter milliliters millilitre millilitres 毫升
l: L liter liters litre litres 升
gal: gallon gallons 加仑
ms: millisecond milliseconds 毫秒
s: sec secs second seconds 秒 秒钟
min: mins minute minutes 分钟
h: hr hrs hour hours 小时 个小时
day: days 天 日
week: weeks 周 个星期 星期
month: months 个月
year: years yr yrs 年
deg: ° degree degrees 度
degC: °C 摄氏度
degF: °F 华氏度
rad: radian radians 弧度
usd: $ US$ USD dollar dollars bucks 美元 美金
cny: ￥ 元 RMB CNY yuan 人民币 块 块钱 元钱 圆
eur: € EUR euro euros 欧元
gbp: £ GBP 英镑
jpy: JPY yen 日元 円
inr: ₹ INR rupee rupees Rs
kb: KB kilobytes
mb: MB megabyte megabytes
gb: GB gigabyte gigabytes
tb: TB terabyte terabytes
kwh: kWh
kcal: 千卡 大卡
krw: ₩ KRW won 韩元
hkd: HK$ HKD 港元 港币
cent: cents ¢ 美分
jiao: 角 毛
fen: 分
hz: Hz hertz 赫兹
n: N newton newtons 牛 牛顿
j: J joule joules 焦 焦耳
w: W watt watts 瓦 瓦特
kw: kW kilowatt kilowatts 千瓦
v: V volt volts 伏 伏特
a: A amp amps ampere amperes 安 安培
ohm: ohms Ω 欧姆 欧
pa: Pa pascal pascals 帕
mol: mole moles 摩尔
k: K kelvin kelvins
ha: hectare hectares 公顷
mu: 亩
unit: units 单位 个单位
rev: revs revolution revolutions 转
ge: 个
"""
_NAMES: dict[str, str] = {}
for _line in _TABLE.strip().splitlines():
    _name, _, _aliases = _line.partition(":")
    _NAMES.update(dict.fromkeys(_aliases.split(), _name))
    if _name not in ("n", "j", "w", "v", "a", "k", "pa", "hz", "kw"):
        _NAMES[_name] = _name
_CURRENCIES = (
    "人民币",
    "US$",
    "US $",
    "USD",
    "RMB",
    "CNY",
    "EUR",
    "GBP",
    "JPY",
    "INR",
    "Rs",
    "HK$",
    "$",
    "￥",
    "€",
    "£",
    "₹",
    "₩",
)
_COMPOUND = {
    "mph": "mi/h",
    "kph": "km/h",
    "kmh": "km/h",
    "rpm": "rev/min",
    "r/min": "rev/min",
    "平方": "^2",
    "立方": "^3",
}
_POWERS = (
    (("square ", "sq ", "sq. ", "平方", "二次方"), 2),
    (("cubic ", "cu ", "cu. ", "立方", "三次方"), 3),
)
_WORDED = {
    **dict.fromkeys(("us dollar", "us dollars", "u.s. dollar", "u.s. dollars"), "usd"),
    **dict.fromkeys(("degree celsius", "degrees celsius", "degrees c", "celsius"), "degC"),
    **dict.fromkeys(("degree fahrenheit", "degrees fahrenheit", "degrees f", "fahrenheit"), "degF"),
}
_BELOW = {"时": "h", "分": "min"}
_PLAIN_POWER = re.compile(r"\b(mm|cm|dm|m|km|in|ft|yd|mi)([23])\b")
_FILLERS = re.compile(r"\b(?:of|the|in total|total|altogether|each|approximately|about)\b")
_PRODUCT = re.compile(r"\s*(?:\*|\\cdot(?![A-Za-z]))\s*|\s+")
_ATOM = re.compile(r"([^\d\s^/*]+)\s*(?:\^\s*\{?\s*(-?\d)\s*\}?)?")
_WORDS = re.compile(r"[A-Za-z][A-Za-z-]*(?:[ ]+[A-Za-z][A-Za-z-]*){0,4}")


def split_currency(text: str) -> tuple[str, str]:
    """The text after a leading currency sign, and the currency; the sign of the number may come first."""
    sign = "-" if text.startswith("-") else ""
    rest = text[len(sign) :].lstrip()
    for mark in _CURRENCIES:
        if rest.startswith(mark) and len(rest) > len(mark):
            after = rest[len(mark) :].lstrip(" ." if mark == "Rs" else " ")
            if mark[-1].isalpha() and not (after[:1].isdigit() or rest[len(mark)] in " ."):
                continue
            return sign + after, _NAMES.get(mark.replace(" ", ""), mark.lower())
    return text, ""


def known_unit(text: str) -> str | None:
    """The one name of a unit, also of a product, power or quotient of units; ``None`` for what is not in the table."""
    text = text.strip().strip(".").strip().removesuffix("整")
    if not text or len(text) > 60:
        return None
    text = _PLAIN_POWER.sub(r"\1^\2", text)
    if text in _COMPOUND:
        return _COMPOUND[text]
    if text in _NAMES:
        return _NAMES[text]
    if text.lower() in _WORDED:
        return _WORDED[text.lower()]
    quotient = re.split(r"\s*/\s*|\s+per\s+|每", text, maxsplit=1)
    if len(quotient) == 2:
        above, below = known_unit(quotient[0]), _BELOW.get(quotient[1]) or known_unit(quotient[1])
        return None if above is None or below is None else f"{above}/{below}"
    return _power(text) or _product(_PRODUCT.split(text))


def _product(factors: list[str]) -> str | None:
    """Of mol·L^{-1} the quotient mol/l."""
    names = [_power(factor) for factor in factors] if len(factors) > 1 else [None]
    above = [name for name in names if name and "^-" not in name]
    below = [re.sub(r"\^-1$", "", name).replace("^-", "^") for name in names if name and "^-" in name]
    if None in names or not above or len(below) > 1:
        return None
    return "/".join([".".join(sorted(above)), *below])


def _power(text: str) -> str | None:
    power = 1
    for words, value in _POWERS:
        for word in words:
            if text.lower().startswith(word):
                text, power = text[len(word) :].strip(), value
    for word, value in ((" squared", 2), (" cubed", 3)):
        if text.lower().endswith(word):
            text, power = text[: -len(word)].strip(), value
    found = _ATOM.fullmatch(text)
    if found is None:
        return None
    name = _NAMES.get(found.group(1)) or _NAMES.get(found.group(1).lower())
    if name is None:
        return None
    power *= int(found.group(2) or 1)
    return name if power == 1 else f"{name}^{power}"


def noun_unit(text: str) -> str | None:
    """What is counted, in words: "red apples" and "red apple" alike; ``None`` for what is no such words."""
    text = _FILLERS.sub(" ", text).strip()
    if not text:
        return ""
    if re.fullmatch(r"[一-鿿]{1,6}", text):
        if text[0] in "十百千万亿几多余":
            return None
        return re.sub(r"^[个只颗本支名位条张辆棵头匹件](?=.)", "", text)
    if not _WORDS.fullmatch(text) or len(text.split()[0]) < 3 or text.lower().startswith("and "):
        return None
    words = [word.lower() for word in text.split()]
    return " ".join(_singular(word) for word in words)


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("ches", "shes", "xes", "sses")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") and len(word) > 3 else word

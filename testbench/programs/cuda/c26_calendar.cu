// Days since 1970 and dates, both ways; weekdays; Easter.

struct Date {
    int year;
    unsigned char month, day, weekday, leap;
};

static __device__ Date date(int days) {
    int shifted = days + 719468, era = (shifted >= 0 ? shifted : shifted - 146096) / 146097;
    unsigned of_era = shifted - era * 146097;
    unsigned year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    unsigned of_year = of_era - (365 * year + year / 4 - year / 100), month = (5 * of_year + 2) / 153;
    Date found;
    found.month = month < 10 ? month + 3 : month - 9;
    found.year = static_cast<int>(year) + era * 400 + (found.month <= 2);
    found.day = of_year - (153 * month + 2) / 5 + 1;
    found.weekday = ((days % 7 + 7) % 7 + 4) % 7;
    found.leap = found.year % 4 == 0 && (found.year % 100 != 0 || found.year % 400 == 0);
    return found;
}

static __device__ int days(const Date &of) {
    int year = of.year - (of.month <= 2), era = (year >= 0 ? year : year - 399) / 400;
    int of_era = year - era * 400, of_year = (153 * (of.month + (of.month > 2 ? -3 : 9)) + 2) / 5 + of.day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static __device__ int easter(int year) {
    int golden = year % 19, century = year / 100, of_century = year % 100;
    int h = (19 * golden + century - century / 4 - (century - (century + 8) / 25 + 1) / 3 + 15) % 30;
    int l = (32 + 2 * (century % 4) + 2 * (of_century / 4) - h - of_century % 4) % 7;
    int m = (golden + 11 * h + 22 * l) / 451;
    return h + l - 7 * m + 114;
}

extern "C" __global__ void k(Date *out, int *numbers, const int *in) {
    unsigned t = threadIdx.x;
    Date found = date(in[t]);
    out[t] = found;
    numbers[2 * t] = days(found) - in[t];
    numbers[2 * t + 1] = easter(found.year < 1583 ? 1583 + t : found.year);
}

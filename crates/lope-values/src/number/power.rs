//! Powers of floats in double-double arithmetic: about 100 bits, rounded once at the end.

/// An unevaluated sum of two floats, the second far smaller than the first.
#[derive(Clone, Copy)]
struct Double {
    high: f64,
    low: f64,
}

const LN2: Double = Double {
    high: std::f64::consts::LN_2,
    low: 2.319_046_813_846_299_6e-17,
};

impl Double {
    const fn new(high: f64) -> Self {
        Self { high, low: 0.0 }
    }

    fn plus(self, other: Self) -> Self {
        let sum = self.high + other.high;
        let part = sum - self.high;
        let error = (self.high - (sum - part)) + (other.high - part);
        quick(sum, error + self.low + other.low)
    }

    fn times(self, other: Self) -> Self {
        let product = self.high * other.high;
        let error = self.high.mul_add(other.high, -product);
        quick(
            product,
            error + (self.high * other.low + self.low * other.high),
        )
    }

    fn over(self, divisor: f64) -> Self {
        let quotient = self.high / divisor;
        let rest = (-quotient).mul_add(divisor, self.high) + self.low;
        quick(quotient, rest / divisor)
    }

    fn minus(self) -> Self {
        Self {
            high: -self.high,
            low: -self.low,
        }
    }
}

fn quick(high: f64, low: f64) -> Double {
    let sum = high + low;
    Double {
        high: sum,
        low: low - (sum - high),
    }
}

/// `base` to the power `exponent`, both finite; NaN where the answer is no real number.
pub fn power(base: f64, exponent: f64) -> f64 {
    let odd = exponent.fract() == 0.0 && exponent % 2.0 != 0.0;
    let sign = if base.is_sign_negative() && odd {
        -1.0
    } else {
        1.0
    };
    if exponent == 0.0 || base.to_bits() == 1.0_f64.to_bits() {
        return 1.0;
    }
    if base == 0.0 {
        return if exponent > 0.0 {
            0.0 * sign
        } else {
            f64::INFINITY * sign
        };
    }
    if base < 0.0 && exponent.fract() != 0.0 {
        return f64::NAN;
    }
    let base = base.abs();
    let answer = match exponent {
        1.0 => base,
        0.5 => base.sqrt(),
        _ => {
            let logarithm = ln(base);
            // Far outside the range of floats the product itself would overflow.
            match logarithm.high * exponent {
                far if far > 710.0 => f64::INFINITY,
                far if far < -746.0 => 0.0,
                _ => exp(logarithm.times(Double::new(exponent))),
            }
        }
    };
    answer * sign
}

/// The natural logarithm of a positive float: of its fraction by Newton from the float's own, plus
/// that of its power of two.
fn ln(number: f64) -> Double {
    let (fraction, shift) = split(number);
    let guess = Double::new(fraction.ln());
    let (power, scale) = exp_parts(guess.minus());
    let ratio = scaled(Double::new(fraction).times(power), scale);
    let step = ratio.plus(Double::new(-1.0));
    // ln(1 + step), whose third term is below what two floats hold.
    let square = step.times(step).over(2.0);
    let refined = guess.plus(step).plus(square.minus());
    refined.plus(LN2.times(Double::new(f64::from(shift))))
}

/// A positive float as a fraction near one and a power of two.
fn split(number: f64) -> (f64, i32) {
    let (number, extra) = if number < f64::MIN_POSITIVE {
        (number * two(64), -64)
    } else {
        (number, 0)
    };
    let bits = number.to_bits();
    let exponent = ((bits >> 52) & 0x7ff) as i32 - 1023;
    let fraction = f64::from_bits((bits & 0x000f_ffff_ffff_ffff) | (1023 << 52));
    if fraction > std::f64::consts::SQRT_2 {
        (fraction / 2.0, exponent + 1 + extra)
    } else {
        (fraction, exponent + extra)
    }
}

fn exp(number: Double) -> f64 {
    let (power, scale) = exp_parts(number);
    if scale < -1021 {
        return subnormal(power, scale);
    }
    // In two halves, since the scale alone may be out of range where the result is not.
    (power.high + power.low) * two(scale / 2) * two(scale - scale / 2)
}

/// A double times a power of two where floats lose digits: counted in the smallest float and
/// rounded once, ties to even.
fn subnormal(power: Double, scale: i32) -> f64 {
    let counted = scaled(power, scale + 1074);
    let whole = counted.high.floor();
    let rest = (counted.high - whole) + counted.low;
    let up = rest > 0.5 || (rest >= 0.5 && whole % 2.0 != 0.0);
    f64::from_bits(whole as u64 + u64::from(up))
}

/// `e` to the power `number`, as a double near one and a power of two.
fn exp_parts(number: Double) -> (Double, i32) {
    let scale = (number.high / std::f64::consts::LN_2).round();
    let rest = number.plus(LN2.times(Double::new(-scale)));
    // A smaller argument needs fewer terms; squaring afterwards restores it.
    let small = Double {
        high: rest.high / 64.0,
        low: rest.low / 64.0,
    };
    let mut term = Double::new(1.0);
    let mut sum = Double::new(1.0);
    for n in 1..=16 {
        term = term.times(small).over(f64::from(n));
        sum = sum.plus(term);
    }
    for _ in 0..6 {
        sum = sum.times(sum);
    }
    (sum, scale as i32)
}

fn scaled(number: Double, scale: i32) -> Double {
    Double {
        high: number.high * two(scale),
        low: number.low * two(scale),
    }
}

/// Two to a power that a normal float holds.
fn two(power: i32) -> f64 {
    f64::from_bits(((power + 1023) as u64) << 52)
}

// The DICOM module (client/data/dicom.h) on top of DCMTK. It reads files of one frame.
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <vector>

#include <dcmtk/config/osconfig.h>
#include <dcmtk/dcmdata/dcrledrg.h>
#include <dcmtk/dcmdata/dcistrmb.h>
#include <dcmtk/dcmdata/dctk.h>
#include <dcmtk/dcmjpeg/djdecode.h>
#include <dcmtk/dcmjpls/djdecode.h>
#include <dcmtk/oflog/oflog.h>

#include "client/data/dicom.h"

namespace {

struct Failure {
	enum sl_dicom_outcome code;
	char why[SL_DICOM_WHY];
};

[[noreturn]] void refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));
void refuse(const char *format, ...)
{
	Failure f = {SL_DICOM_BAD, ""};
	va_list args;

	va_start(args, format);
	vsnprintf(f.why, sizeof f.why, format, args);
	va_end(args);
	throw f;
}

// The attributes of a file that describe its pixels.
struct Form {
	Uint16 rows, columns, samples, allocated, stored, high, is_signed, planar;
	OFString colours;
	double slope, intercept;
	OFString function; // VOI LUT function: how the window maps values
	bool windowed, inverted;
	double centre, width;

	bool halved() const { return colours == "YBR_FULL_422"; } // two pixels share their colour differences
	size_t numbers() const { return size_t(rows) * columns * (halved() ? 2 : samples); }
};

Uint16 number(DcmItem &set, const DcmTagKey &tag, const char *name, int otherwise = -1)
{
	Uint16 value;

	if (set.findAndGetUint16(tag, value).good())
		return value;
	if (otherwise < 0)
		refuse("DICOM: it has no %s", name);
	return Uint16(otherwise);
}

double real(DcmItem &set, const DcmTagKey &tag, double otherwise)
{
	Float64 value;

	return set.findAndGetFloat64(tag, value).good() ? value : otherwise;
}

// The item that describes the one frame: of a functional group of the frame, or of all frames; else the file itself.
DcmItem &described(DcmItem &set, const DcmTagKey &what)
{
	for (const DcmTagKey &groups : {DCM_PerFrameFunctionalGroupsSequence, DCM_SharedFunctionalGroupsSequence}) {
		DcmItem *group, *item;

		if (set.findAndGetSequenceItem(groups, group).good() && group->findAndGetSequenceItem(what, item).good())
			return *item;
	}
	return set;
}

void check_form(const Form &f, const struct sl_dicom_ask &ask)
{
	if (!f.rows || !f.columns)
		refuse("DICOM: the picture has no pixels (%d x %d)", f.columns, f.rows);
	if (int64_t(f.rows) * f.columns > ask.max_pixels)
		refuse("%d x %d pixels are too many: data.max_pixels is %lld", f.columns, f.rows,
		       (long long)ask.max_pixels);
	if (f.samples == 1 && f.colours != "MONOCHROME1" && f.colours != "MONOCHROME2")
		refuse("DICOM: grey as MONOCHROME1 or MONOCHROME2 is read, and it has %.40s", f.colours.c_str());
	if (f.halved() && f.columns % 2)
		refuse("DICOM: YBR_FULL_422 with %d columns, an odd number", f.columns);
	if (f.samples != 1 && f.samples != 3)
		refuse("DICOM: a pixel has %d numbers; 1 and 3 are read", f.samples);
	if ((f.allocated != 8 && f.allocated != 16) || (f.samples == 3 && f.allocated != 8))
		refuse("DICOM: %d bits for each of %d numbers of a pixel; 8 and 16 of grey are read, and 8 of colours",
		       f.allocated, f.samples);
	if (!f.stored || f.stored > f.allocated || f.high >= f.allocated || f.high + 1 < f.stored)
		refuse("DICOM: %d bits up to bit %d do not fit %d", f.stored, f.high, f.allocated);
	if (!std::isfinite(f.slope) || !std::isfinite(f.intercept) || f.slope == 0)
		refuse("DICOM: rescale slope and intercept are no numbers that can be used");
	if (f.windowed && !(std::isfinite(f.centre) && std::isfinite(f.width) &&
			    (f.function == "LINEAR" ? f.width >= 1 : f.width > 0)))
		refuse("DICOM: a window of width %g cannot be shown: give data.window", f.width);
}

Form form_of(DcmItem &set, const struct sl_dicom_ask &ask)
{
	Form f = {};
	Sint32 frames = 1;
	Float64 first;
	OFString shape;
	DcmItem &values = described(set, DCM_PixelValueTransformationSequence);
	DcmItem &voi = described(set, DCM_FrameVOILUTSequence);

	if (set.findAndGetSint32(DCM_NumberOfFrames, frames).good() && frames != 1)
		refuse("DICOM: it has %d frames; volumes and films are not read yet: save each frame by itself",
		       int(frames));
	if (set.tagExists(DCM_ModalityLUTSequence))
		refuse("DICOM: its values go through a table (Modality LUT Sequence), which is not read yet");
	f.rows = number(set, DCM_Rows, "Rows");
	f.columns = number(set, DCM_Columns, "Columns");
	f.samples = number(set, DCM_SamplesPerPixel, "SamplesPerPixel", 1);
	f.allocated = number(set, DCM_BitsAllocated, "BitsAllocated");
	f.stored = number(set, DCM_BitsStored, "BitsStored", f.allocated);
	f.high = number(set, DCM_HighBit, "HighBit", f.stored - 1);
	f.is_signed = number(set, DCM_PixelRepresentation, "PixelRepresentation", 0);
	f.planar = number(set, DCM_PlanarConfiguration, "PlanarConfiguration", 0);
	if (set.findAndGetOFString(DCM_PhotometricInterpretation, f.colours).bad())
		refuse("DICOM: it has no PhotometricInterpretation");
	f.slope = real(values, DCM_RescaleSlope, 1);
	f.intercept = real(values, DCM_RescaleIntercept, 0);
	f.inverted = f.colours == "MONOCHROME1" ||
		     (set.findAndGetOFString(DCM_PresentationLUTShape, shape).good() && shape == "INVERSE");
	f.windowed = ask.windowed || voi.findAndGetFloat64(DCM_WindowCenter, first).good();
	if (!f.windowed && set.tagExists(DCM_VOILUTSequence))
		refuse("DICOM: it has a table in place of a window (VOI LUT Sequence), which is not read yet: give "
		       "data.window");
	f.centre = ask.windowed ? ask.window[0] : real(voi, DCM_WindowCenter, 0);
	f.width = ask.windowed ? ask.window[1] : real(voi, DCM_WindowWidth, 0);
	if (ask.windowed || voi.findAndGetOFString(DCM_VOILUTFunction, f.function).bad() || f.function.empty())
		f.function = "LINEAR";
	if (f.function != "LINEAR" && f.function != "LINEAR_EXACT" && f.function != "SIGMOID")
		refuse("DICOM: its VOI LUT function is %.40s; LINEAR, LINEAR_EXACT and SIGMOID are read",
		       f.function.c_str());
	check_form(f, ask);
	return f;
}

// A grey value: the stored bits of `raw` as a number, with rescale slope and intercept applied.
double value_of(const Form &f, unsigned raw)
{
	const unsigned mask = (1u << f.stored) - 1;
	long value = (raw >> (f.high + 1 - f.stored)) & mask;

	if (f.is_signed && value >> (f.stored - 1))
		value -= long(mask) + 1;
	return double(value) * f.slope + f.intercept;
}

// Applies the window: x as a share of white, which is below 0 or above 1 outside the window.
double shown(const Form &f, double x)
{
	if (f.function == "SIGMOID")
		return 1 / (1 + std::exp(-4 * (x - f.centre) / f.width));
	if (f.function == "LINEAR_EXACT")
		return (x - f.centre) / f.width + 0.5;
	if (f.width == 1)
		return x <= f.centre - 0.5 ? 0 : 1;
	return (x - (f.centre - 0.5)) / (f.width - 1) + 0.5;
}

uint16_t whole(double share)
{
	return uint16_t(share <= 0 ? 0 : share >= 1 ? 65535 : std::floor(share * 65535 + 0.5));
}

// Without a window: x as a share of white, where the range of the stored bits goes from black to white.
double spread(const Form &f, double x)
{
	const double low = f.is_signed ? -std::ldexp(1, f.stored - 1) : 0, range = std::ldexp(1, f.stored) - 1;
	const double a = low * f.slope + f.intercept, b = (low + range) * f.slope + f.intercept;

	return (x - std::fmin(a, b)) / std::fabs(b - a);
}

void fill_grey(const Form &f, uint16_t *out, const void *pixels)
{
	for (size_t i = 0; i < f.numbers(); i++) {
		const unsigned raw = f.allocated == 8 ? static_cast<const Uint8 *>(pixels)[i]
						      : static_cast<const Uint16 *>(pixels)[i];
		const double x = value_of(f, raw);
		const uint16_t y = whole(f.windowed ? shown(f, x) : spread(f, x));

		out[i] = f.inverted ? uint16_t(65535 - y) : y;
	}
}

void fill_colours(const Form &f, uint16_t *out, const Uint8 *pixels)
{
	const size_t n = size_t(f.rows) * f.columns;

	for (size_t i = 0; i < n; i++)
		for (size_t c = 0; c < 3; c++)
			out[i * 3 + c] = uint16_t(257 * pixels[f.planar ? c * n + i : i * 3 + c]);
}

// Luma and colour differences as RGB (PS3.3 C.7.6.3.1.2).
void fill_ycbcr(const Form &f, uint16_t *out, const Uint8 *pixels)
{
	const size_t n = size_t(f.rows) * f.columns, step = f.planar && !f.halved() ? n : 1;

	for (size_t i = 0; i < n; i++) {
		const Uint8 *at = f.halved() ? pixels + i / 2 * 4 : f.planar ? pixels + i : pixels + 3 * i;
		const double y = f.halved() ? at[i % 2] : at[0], cb = at[f.halved() ? 2 : step] - 128.0,
			     cr = at[f.halved() ? 3 : 2 * step] - 128.0;
		const double rgb[] = {y + 1.402 * cr, y - 0.344136 * cb - 0.714136 * cr, y + 1.772 * cb};

		for (size_t c = 0; c < 3; c++)
			out[i * 3 + c] = uint16_t(257 * std::floor(std::fmin(std::fmax(rgb[c], 0), 255) + 0.5));
	}
}

// The pixels without compression: [rows][columns][samples], or [samples][rows][columns] if f.planar. `set` owns them.
const void *decoded(DcmDataset &set, const Form &f)
{
	const E_TransferSyntax syntax = set.getOriginalXfer();
	unsigned long count = 0;
	const Uint16 *words = nullptr;
	const Uint8 *bytes = nullptr;

	if (set.chooseRepresentation(EXS_LittleEndianExplicit, nullptr).bad() ||
	    !set.canWriteXfer(EXS_LittleEndianExplicit))
		refuse("DICOM: pixels in %.80s cannot be decoded; they are damaged, or DCMTK does not read that: try "
		       "gdcmconv --raw",
		       DcmXfer(syntax).getXferName());
	if (f.allocated == 16 ? set.findAndGetUint16Array(DCM_PixelData, words, &count).bad()
			      : set.findAndGetUint8Array(DCM_PixelData, bytes, &count).bad())
		refuse("DICOM: it has no pixels");
	if (count < f.numbers())
		refuse("DICOM: it ends after %lu of %zu numbers of its pixels", count, f.numbers());
	return f.allocated == 16 ? static_cast<const void *>(words) : bytes;
}

// Checks the lengths and the nesting of all elements before DCMTK parses them: DCMTK allocates whatever length a file
// names, and recurses once per level.
class Walk {
	static constexpr uint32_t UNDEFINED = 0xffffffffu;
	static constexpr const char *LONG = "OB OW OF OD OL OV SQ UC UR UT UN SV UV";
	static constexpr const char *SHORT = "AE AS AT CS DA DS DT FL FD IS LO LT PN SH SL SS ST TM UI UL US";
	struct Level {
		size_t end; // offset behind it; len: a delimiter ends it
		bool implicit, fragments;
	};
	const uint8_t *bytes;
	const size_t len;
	size_t at = 132;
	bool big = false;
	OFString syntax;
	std::vector<Level> level;

	uint32_t value(size_t where, int n) const
	{
		uint32_t v = 0;

		if (len < where + size_t(n))
			refuse("DICOM: damaged or cut off: it ends within an element");
		for (int i = 0; i < n; i++)
			v |= uint32_t(bytes[where + size_t(i)]) << 8 * (big ? n - 1 - i : i);
		return v;
	}

	void enter(uint32_t n, bool implicit, bool fragments)
	{
		if (level.size() == 32)
			refuse("DICOM: damaged: sequences within sequences, more than 32");
		level.push_back({n == UNDEFINED ? len : at + n, implicit, fragments});
	}

	void item(uint16_t element)
	{
		const uint32_t n = value(at + 4, 4);

		at += 8;
		if (level.size() == 1 || (element != 0xe000 && element != 0xe00d && element != 0xe0dd))
			refuse("DICOM: damaged or cut off: an item where there is no sequence");
		if (element != 0xe000) { // a delimiter
			level.pop_back();
			return;
		}
		fits(n);
		if (level.back().fragments)
			at += n == UNDEFINED ? 0 : n;
		else
			enter(n, level.back().implicit, false);
	}

	void fits(uint32_t n) const
	{
		if (n != UNDEFINED && n > len - at)
			refuse("DICOM: damaged or cut off: an element of %u bytes, where %zu are left", n, len - at);
	}

	// Whether DCMTK may read an element as a sequence. An implicit element does not name its VR: DCMTK looks it up
	// in its dictionary.
	static bool may_nest(uint16_t group, uint16_t number)
	{
		const DcmEVR kind = DcmTag(group, number).getEVR();

		return kind == EVR_SQ || kind == EVR_UN || kind == EVR_UNKNOWN;
	}

	void element(uint16_t group, uint16_t number)
	{
		const bool implicit = level.back().implicit && group != 2;
		const char vr[3] = {char(bytes[at + 4]), char(bytes[at + 5]), 0};
		const bool is_long = implicit || strstr(LONG, vr);
		const bool pixels = group == 0x7fe0 && number == 0x10;
		const uint32_t n = implicit ? value(at + 4, 4) : is_long ? value(at + 8, 4) : value(at + 6, 2);

		if (!implicit && (vr[0] <= ' ' || vr[1] <= ' ' || (!strstr(LONG, vr) && !strstr(SHORT, vr))))
			refuse("DICOM: damaged or cut off: an element without a kind");
		const bool nests = implicit ? may_nest(group, number) : strcmp(vr, "SQ") == 0 || strcmp(vr, "UN") == 0;

		if (n == UNDEFINED && !pixels && !nests)
			refuse("DICOM: damaged or cut off: an element without a length");
		at += implicit || !is_long ? 8 : 12;
		if (at > len)
			refuse("DICOM: damaged or cut off: it ends within an element");
		fits(n);
		if (group == 2 && number == 0x10)
			syntax.assign(reinterpret_cast<const char *>(bytes) + at, n < 64 ? n : 0);
		if (n == UNDEFINED || (n >= 8 && !pixels && value(at, 2) == 0xfffe && value(at + 2, 2) == 0xe000))
			enter(n, implicit || strcmp(vr, "UN") == 0, pixels);
		else
			at += n;
	}

	// After group 2, elements are in the transfer syntax that the file names.
	void begin_data()
	{
		while (!syntax.empty() && (syntax.back() == ' ' || syntax.back() == 0))
			syntax.erase(syntax.size() - 1);
		big = syntax == "1.2.840.10008.1.2.2";
		level[0].implicit = syntax == "1.2.840.10008.1.2";
		if (DcmXfer(syntax.c_str()).getXfer() == EXS_Unknown)
			refuse("DICOM: its transfer syntax is not known: \"%.40s\"", syntax.c_str());
		if (syntax == "1.2.840.10008.1.2.1.99")
			refuse("DICOM: deflated files are not read yet: try dcmconv +te");
	}

public:
	Walk(const uint8_t *bytes, size_t len) : bytes(bytes), len(len) {}

	void all()
	{
		bool data = false;
		size_t data_at;

		level.push_back({len, false, false});
		if (value(at, 4) != 2 || value(at + 4, 4) != 0x00044c55) // (0002,0000) UL: the length of group 2
			refuse("DICOM: damaged or cut off: its header does not begin with its length");
		data_at = at + 12 + size_t(value(at + 8, 4));
		while (len > at) {
			while (level.size() > 1 && level.back().end <= at && level.back().end != len)
				level.pop_back();
			if (!data && value(at, 2) != 2) {
				data = true;
				if (at != data_at)
					refuse("DICOM: damaged or cut off: its header has another length than it says");
				begin_data();
			}
			if (len - at < 8)
				refuse("DICOM: damaged or cut off: it ends within an element");
			const uint16_t group = uint16_t(value(at, 2)), number = uint16_t(value(at + 2, 2));

			if (group == 0xfffe)
				item(number);
			else
				element(group, number);
		}
	}
};

void read_file(const uint8_t *bytes, size_t len, const struct sl_dicom_ask &ask)
{
	DcmInputBufferStream stream;
	DcmFileFormat file;
	OFCondition said;

	Walk(bytes, len).all();
	stream.setBuffer(bytes, offile_off_t(len));
	stream.setEos();
	file.transferInit();
	said = file.read(stream, EXS_Unknown, EGL_noChange, len > 0xffffffffu ? 0xffffffffu : Uint32(len));
	file.transferEnd();
	if (said.bad())
		refuse("DICOM: damaged or cut off: %.120s", said.text());
	DcmDataset &set = *file.getDataset();
	Form f = form_of(set, ask);
	const void *pixels = decoded(set, f);

	// decoding may have changed the attributes that describe the pixels
	f = form_of(set, ask);
	const bool ycbcr = f.halved() || f.colours == "YBR_FULL";
	if (f.samples == 3 && f.colours != "RGB" && !ycbcr)
		refuse("DICOM: colours as RGB, YBR_FULL and YBR_FULL_422 are read, and it has %.40s", f.colours.c_str());
	pixels = decoded(set, f);
	uint16_t *out = ask.room(ask.arg, f.rows, f.columns, f.samples);
	if (!out)
		throw Failure{SL_DICOM_NO_MEMORY, "no memory for its pixels"};
	if (f.samples == 1)
		fill_grey(f, out, pixels);
	else
		(ycbcr ? fill_ycbcr : fill_colours)(f, out, static_cast<const Uint8 *>(pixels));
}

enum sl_dicom_outcome read(const uint8_t *bytes, size_t len, const struct sl_dicom_ask *ask, char why[SL_DICOM_WHY])
{
	try {
		read_file(bytes, len, *ask);
		return SL_DICOM_READ;
	} catch (const Failure &f) {
		snprintf(why, SL_DICOM_WHY, "%s", f.why);
		return f.code;
	} catch (const std::bad_alloc &) {
		snprintf(why, SL_DICOM_WHY, "no memory for a DICOM file");
		return SL_DICOM_NO_MEMORY;
	} catch (...) {
		snprintf(why, SL_DICOM_WHY, "DICOM: damaged");
		return SL_DICOM_BAD;
	}
}

void register_codecs()
{
	OFLog::configure(OFLogger::OFF_LOG_LEVEL);
	DcmRLEDecoderRegistration::registerCodecs();
	DJDecoderRegistration::registerCodecs();
	DJLSDecoderRegistration::registerCodecs();
}

const struct sl_dicom module = {SL_DICOM_ABI, read};

} // namespace

extern "C" __attribute__((visibility("default"))) const struct sl_dicom *sl_dicom_module(void)
{
	static std::once_flag once;

	std::call_once(once, register_codecs);
	return &module;
}

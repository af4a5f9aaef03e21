// Text in UTF-8: what it is, and what is shown of text that is none, or too long, or has secrets.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace braid {

bool IsUtf8(std::string_view text);

// The text with U+FFFD for what is no UTF-8, for documents and messages that must be.
std::string ToUtf8(std::string_view text);

// How many bytes an error text repeats of one that others have sent.
inline constexpr size_t kMostRepeated = 512;

// The text, or where it has more bytes than that, its first characters and its size: "abc... (70000 bytes)". For texts that
// repeat what a client has sent, which may be as long as a message.
std::string Shortened(std::string_view text, size_t most = kMostRepeated);

// The message without the users and passwords of URLs and addresses in it: "s3://***@host". For errors that repeat what stands on a
// command line.
std::string WithoutCredentials(std::string_view message);

// Takes the next character off `text`, which is not empty. Nothing, and one byte is taken, where no character
// begins.
std::optional<char32_t> TakeCharacter(std::string_view& text);

// Whether a character has no look of its own but does something to what shows it: those below U+0020, U+007F
// to U+009F, the line and paragraph separators, and those that change the direction of writing.
bool IsControlCharacter(char32_t character);

}  // namespace braid

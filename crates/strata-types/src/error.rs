//! The public error: by what the caller can do about it, not by where it
//! came from. Faces map the kind to their own code; nothing else decides.

use std::fmt;

/// A result whose error can be shown to a caller.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What the caller can do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The input is wrong; sending it again will not help.
    Invalid,
    /// There is no such thing.
    NotFound,
    /// There is one already, and it is different.
    AlreadyExists,
    /// The request is right, the state of the thing is not.
    WrongState,
    /// Nothing is left to give.
    Exhausted,
    /// The caller has not said who it is.
    Unauthenticated,
    /// The caller may not do this.
    PermissionDenied,
    /// Try again later.
    Unavailable,
    /// Another caller was faster; look again.
    Aborted,
    /// A bug, or a machine that broke in a way nobody planned for.
    Internal,
}

impl ErrorKind {
    /// Every kind, for tables and tests.
    pub const ALL: [Self; 10] = [
        Self::Invalid,
        Self::NotFound,
        Self::AlreadyExists,
        Self::WrongState,
        Self::Exhausted,
        Self::Unauthenticated,
        Self::PermissionDenied,
        Self::Unavailable,
        Self::Aborted,
        Self::Internal,
    ];

    /// The stable code of this kind, the same on every face.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::NotFound => "not_found",
            Self::AlreadyExists => "already_exists",
            Self::WrongState => "wrong_state",
            Self::Exhausted => "exhausted",
            Self::Unauthenticated => "unauthenticated",
            Self::PermissionDenied => "permission_denied",
            Self::Unavailable => "unavailable",
            Self::Aborted => "aborted",
            Self::Internal => "internal",
        }
    }
}

/// An error and all that led to it, in one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // Some repeat their cause in their own text.
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

/// What went wrong, in which field, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: Box<str>,
    field: Option<Box<str>>,
    hint: Option<Box<str>>,
}

impl Error {
    /// An error of a kind with a message that says what happened and why.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into().into(),
            field: None,
            hint: None,
        }
    }

    /// The input in `field` is wrong.
    pub fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message).in_field(field)
    }

    /// There is no such thing.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// There is one already, and it is different.
    pub fn already_exists(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::AlreadyExists, message)
    }

    /// The request is right, the state of the thing is not.
    pub fn wrong_state(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::WrongState, message)
    }

    /// Nothing is left to give.
    pub fn exhausted(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Exhausted, message)
    }

    /// Try again later.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, message)
    }

    /// A bug, or a machine that broke in a way nobody planned for.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }

    /// Names the field that is at fault.
    #[must_use]
    pub fn in_field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into().into());
        self
    }

    /// Says what a person can do next.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into().into());
        self
    }

    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What happened and why, without the field.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The field at fault.
    pub fn field(&self) -> Option<&str> {
        self.field.as_deref()
    }

    /// What a person can do next.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.field {
            Some(field) => write!(f, "{field}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Error {}
